"""Boosted trees of XGBoost, as `save_model` writes them, in JSON or UBJSON; binary classification only.

The file is data: it is read and checked here, and XGBoost loads the new file that `_document` writes (see `trees`).
Outputs are those of XGBoost, in single precision, so a threshold taken from its probabilities has the same meaning.

With ``input: raw`` trees may split by categories; a record goes right where its category is among those of the node.
XGBoost 3 stores the categories of a DataFrame (``cats``), others are positions in the manifest.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    field_validator,
    model_validator,
)

from app.errors import Fault, ModelRefused
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox, Input, Predict
from app.recourse.models.score import Output, logit, sigmoid
from app.recourse.models.tree_boxes import single_precision_edge
from app.registry.adapters.artifact import (
    FAULTS,
    UNREADABLE,
    form_refusal,
    plain_number,
    read_artifact,
    refuse_repeated_keys,
    refused,
    unreadable,
)
from app.registry.adapters.estimator_parts import MEMBERS, Member
from app.registry.adapters.optional_import import library
from app.registry.adapters.tree_input import TreeInput, note_on_unnamed, tree_input, with_codes
from app.registry.adapters.trees import Tree, with_boxes
from app.registry.adapters.ubjson import is_ubjson
from app.registry.adapters.ubjson import parse as parse_ubjson
from app.registry.adapters.xgboost_categories import (
    EncodedCategories,
    TreeWithCategories,
    category_faults,
    named_categories,
    splits_of,
)
from app.registry.manifest import Manifest
from app.registry.trust import Trust

LARGEST = float(np.finfo(np.float32).max)

OTHER_OBJECTIVE = (
    "must be 'binary:logistic' or 'binary:logitraw': train a classifier of two classes; of binary:hinge and "
    "multi:softprob with two classes by binary:logistic, of more classes export it as ONNX"
)
REGRESSOR = "must be 'binary:logistic' or 'binary:logitraw': train a classifier of two classes, or say output: points"

ROOT = 2**31 - 1
"""XGBoost's parent of a node without one."""

Index = Annotated[int, Field(strict=True, ge=-1, lt=2**32)]
"""Index of a node or column; the column of a pruned node is a marker near 2**32."""

Single = Annotated[FiniteFloat, Field(strict=True, ge=-LARGEST, le=LARGEST)]


def _written(value: Any) -> Any:
    """XGBoost writes parameters as texts, since version 3 the base score of one target as an array in one."""
    return plain_number(value.removeprefix("[").removesuffix("]") if isinstance(value, str) else value)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class _TreePart(TreeWithCategories):
    left_children: Annotated[list[Index], Field(min_length=1)]
    right_children: list[Index]
    split_indices: list[Index]
    split_conditions: list[Single]
    """Thresholds, and the values of leaves."""
    default_left: list[bool]


class _Container(_Part):
    enc: list[EncodedCategories] = []


class _ModelParam(_Part):
    num_parallel_tree: Annotated[int, Field(ge=1), BeforeValidator(_written)] = 1


class _Trees(_Part):
    cats: _Container = _Container()
    gbtree_model_param: _ModelParam
    tree_info: list[Literal[0]]
    trees: Annotated[list[_TreePart], Field(min_length=1)]


class _Booster(_Part):
    name: Literal["gbtree"]
    model: _Trees

    @model_validator(mode="before")
    @classmethod
    def _without_drops(cls, stated: Any) -> Any:
        return without_drops(stated)


class _LearnerParam(_Part):
    base_score: Annotated[Single, BeforeValidator(_written)]
    num_class: Annotated[int, Field(ge=0, le=1), BeforeValidator(_written)]
    num_feature: Annotated[int, BeforeValidator(_written)]
    num_target: Annotated[int, Field(ge=1, le=1), BeforeValidator(_written)] = 1


class _Objective(_Part):
    name: Literal["binary:logistic", "binary:logitraw", "reg:squarederror", "reg:pseudohubererror", "reg:absoluteerror"]
    """`reg:logistic` is `binary:logistic` with other metrics."""

    @field_validator("name", mode="before")
    @classmethod
    def _classifier(cls, name: Any) -> Any:
        return "binary:logistic" if name == "reg:logistic" else name


def without_drops(stated: Any) -> Any:
    """A booster of DART as one of plain trees, each leaf times the weight of its tree; any other booster unchanged.

    Raises `ValueError` for one without a weight for each of its trees.
    """
    if not isinstance(stated, dict) or stated.get("name") != "dart":
        return stated
    try:
        inner, weights = stated["gbtree"], stated["weight_drop"]
        trees = [
            {**tree, "split_conditions": [
                float(np.float32(number) * np.float32(weight)) if int(left) < 0 else number
                for number, left in zip(tree["split_conditions"], tree["left_children"], strict=True)
            ]}
            for tree, weight in zip(inner["model"]["trees"], weights, strict=True)
        ]  # fmt: skip
        return {**inner, "name": "gbtree", "model": {**inner["model"], "trees": trees}}
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError("is dart, without a weight for each of its trees") from error


class _Attributes(_Part):
    best_iteration: Annotated[int | None, BeforeValidator(_written)] = None


class _Learner(_Part):
    attributes: _Attributes = _Attributes()
    feature_names: list[str] = []
    gradient_booster: _Booster
    learner_model_param: _LearnerParam
    objective: _Objective


class _File(_Part):
    """The content of the file, as far as it is used."""

    version: tuple[Annotated[int, Field(ge=1, le=3)], int, int]
    """Version of the XGBoost that wrote it."""
    learner: _Learner


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of an ensemble; of a single tree, with its boxes. Contract in `app.registry.adapters.Load`."""
    learner, trees, taken = read_trees(read_artifact(manifest, directory), manifest, space)
    taken.warn()
    parts = learner.gradient_booster.model.trees
    booster = _booster(_document(learner, trees, parts))
    black_box = BlackBox(
        space=space, predict=_predict(booster, learner.objective.name, manifest, taken), input=manifest.input,
        output=manifest.output, threshold=manifest.threshold, points=manifest.points, rowwise=True,
    )  # fmt: skip
    if taken.missing is not None:
        return black_box  # a number that is read as missing goes its own way, which boxes cannot describe
    return with_boxes(black_box, trees, lambda threshold: single_precision_edge(threshold, strict=True), taken.indices)


def read_trees(content: bytes, manifest: Manifest, space: FeatureSpace) -> tuple[_Learner, list[Tree], TreeInput]:
    """What the bytes of a file say, its trees, and the matrix that they take.

    Raises
    ------
    ModelRefused : they are no sound ensemble over these columns
    """
    learner = _parse(content).learner
    model, columns = learner.gradient_booster.model, learner.learner_model_param.num_feature
    taken, faults = tree_input(manifest, space, learner.feature_names or None, columns)
    trees, unsound = _trees(model.trees, columns)
    faults = [*unsound, *faults]
    if manifest.input is Input.ENCODED:
        by_name = "splits by categories; write input: raw, which is one column for each feature"
        faults += [Fault(_pointer(i), by_name) for i, part in enumerate(model.trees) if any(part.split_type)]
    elif not faults:
        named = named_categories(model.cats.enc)
        taken, differing = with_codes(taken, space, named)
        asked, wrong = category_faults(model.trees, trees, space)
        outside = "has splits by categories that its features do not have"
        faults += differing or [Fault(_pointer(i), outside) for i in wrong]
        taken = replace(taken, notes=note_on_unnamed(space, sorted(asked), named, manifest.file.codes))
    faults += _learner_faults(learner)
    regressor = learner.objective.name.startswith("reg:")
    if regressor and manifest.output is not Output.POINTS:
        faults = [Fault("/artifact/learner/objective/name", REGRESSOR)]
    elif manifest.output is Output.POINTS and not regressor:
        faults.append(Fault("/output", "must be probability or logit: the model is a classifier"))
    if faults:
        raise ModelRefused(faults=faults[:FAULTS])
    return learner, trees, taken


def merged(models: Sequence[tuple[_Learner, Sequence[Tree]]]) -> tuple[bytes, Float[np.ndarray, "k"]]:
    """One ensemble of several, as XGBoost's UBJSON: its margin has a column for each, less what is in the array.

    XGBoost adds up the trees of each class of a model of many classes; here, a class is one of the ensembles.
    """
    documents = [_document(learner, trees, learner.gradient_booster.model.trees) for learner, trees in models]
    boosters = [document["learner"]["gradient_booster"]["model"] for document in documents]
    trees = [tree for booster in boosters for tree in booster["trees"]]
    whole: dict[str, Any] = documents[0]["learner"]
    whole["gradient_booster"]["model"] = {
        **boosters[0],
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": [0, len(trees)],
        "tree_info": [k for k, booster in enumerate(boosters) for _ in booster["trees"]],
        "trees": [{**tree, "id": i} for i, tree in enumerate(trees)],
    }
    count = str(len(models))
    whole["learner_model_param"] |= {"num_class": count, "base_score": "0.0", "boost_from_average": "0"}
    whole["objective"] = {"name": "multi:softprob", "softmax_multiclass_param": {"num_class": count}}
    base = np.array([learner.learner_model_param.base_score for learner, _ in models])
    logits = [learner.objective.name == "binary:logitraw" for learner, _ in models]
    return bytes(_booster(documents[0]).save_raw("ubj")), np.where(logits, base, logit(base))


def _parse(content: bytes) -> _File:
    refuse_repeated_keys(content)
    try:
        return _validated(parse_ubjson(content) if is_ubjson(content) else content)
    except ValueError as error:
        raise refused(f"cannot be read as UBJSON: {error}") from error


def _validated(document: Any) -> _File:
    """A file from JSON, or from plain data."""
    try:
        if isinstance(document, bytes):
            return _File.model_validate_json(document)
        return _File.model_validate(document)
    except ValidationError as error:
        refusal = form_refusal(error)
        if other := [one for one in refusal.faults if "/objective/" in one.pointer]:  # explains all others
            raise ModelRefused(faults=[Fault(other[0].pointer, OTHER_OBJECTIVE)]) from error
        raise refusal from error


def _trees(parts: Sequence[_TreePart], columns: int) -> tuple[list[Tree], list[Fault]]:
    """The trees as arrays, and their faults."""
    trees: list[Tree] = []
    faults: list[Fault] = []
    for i, part in enumerate(parts):
        pointer = _pointer(i)
        arrays = (part.right_children, part.split_indices, part.split_conditions, part.default_left)
        if any(len(array) != len(part.left_children) for array in arrays):
            faults.append(Fault(pointer, "has arrays of different lengths"))
            continue
        tree = Tree(
            feature=np.array(part.split_indices),
            number=np.array(part.split_conditions, dtype=np.float32).astype(float),
            left=np.array(part.left_children),
            right=np.array(part.right_children),
        )
        if fault := tree.fault(columns):
            faults.append(Fault(pointer, fault))
        trees.append(tree)
    return trees, faults


def _pointer(i: int) -> str:
    return f"/artifact/learner/gradient_booster/model/trees/{i}"


def _learner_faults(learner: _Learner) -> list[Fault]:
    """Faults of the ensemble as a whole."""
    pointer, model = "/artifact/learner", learner.gradient_booster.model
    faults: list[Fault] = []
    base, best = learner.learner_model_param.base_score, learner.attributes.best_iteration
    if learner.objective.name == "binary:logistic" and not 0.0 < base < 1.0:
        faults.append(Fault(f"{pointer}/learner_model_param/base_score", "must be a probability"))
    rounds, left_over = divmod(len(model.trees), model.gbtree_model_param.num_parallel_tree)
    if len(model.tree_info) != len(model.trees) or left_over:
        faults.append(Fault(f"{pointer}/gradient_booster/model/trees", "are not as many as the file says"))
    elif best is not None and best + 1 != rounds:
        # XGBClassifier would use the first rounds, Booster.predict all of them.
        detail = (
            f"training stopped early at round {best}, but the file has {rounds} rounds; "
            f"save booster[: {best + 1}] to say which are meant"
        )
        faults.append(Fault(f"{pointer}/attributes/best_iteration", detail))
    return faults


# --- to the library --------------------------------------------------------------------------------------------------


def _document(learner: _Learner, trees: Sequence[Tree], parts: Sequence[_TreePart]) -> dict[str, Any]:
    """The file that XGBoost 3 would write, reduced to what predictions need."""
    columns = str(learner.learner_model_param.num_feature)
    model = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": [
            _tree_document(i, tree, part, columns) for i, (tree, part) in enumerate(zip(trees, parts, strict=True))
        ],
    }
    return {
        "version": [3, 0, 0],
        "learner": {
            "attributes": {},
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": {"name": "gbtree", "model": model},
            "learner_model_param": {
                "base_score": repr(*_digits(np.array([learner.learner_model_param.base_score]))),
                "boost_from_average": "1",
                "num_class": "0",
                "num_feature": columns,
                "num_target": "1",
            },
            "objective": _objective_document(learner.objective.name),
        },
    }


def _objective_document(name: str) -> dict[str, Any]:
    if name == "reg:pseudohubererror":
        return {"name": name, "pseudo_huber_param": {"huber_slope": "1"}}
    return {"name": name} | ({} if name == "reg:absoluteerror" else {"reg_loss_param": {"scale_pos_weight": "1"}})


def _tree_document(i: int, tree: Tree, part: _TreePart, columns: str) -> dict[str, Any]:
    # Pruned nodes stay in the arrays with a marker, and XGBoost crashes where the markers are wrong. For single records
    # it takes the node after the left child for the right one, whatever the file says; siblings are adjacent here.
    nodes = tree.reached()
    tree = tree.of(nodes)
    count = len(nodes)
    inner = np.flatnonzero(tree.left >= 0)
    parents = np.full(count, ROOT)
    parents[tree.left[inner]] = inner
    parents[tree.right[inner]] = inner
    zeros = [0.0] * count  # statistics of training
    splits = splits_of(part) if any(part.split_type) else {}
    by_category = [new for new, old in enumerate(nodes.tolist()) if splits and part.split_type[old]]
    split = [(new, splits[int(nodes[new])]) for new in by_category if tree.left[new] >= 0]
    sizes = [len(codes) for _, codes in split]
    kinds = np.zeros(count, dtype=int)
    kinds[[new for new, _ in split]] = 1
    return {
        "id": i,
        "base_weights": zeros,
        "categories": [code for _, codes in split for code in sorted(codes)],
        "categories_nodes": [new for new, _ in split],
        "categories_segments": [sum(sizes[:k]) for k in range(len(sizes))],
        "categories_sizes": sizes,
        "default_left": np.array(part.default_left)[nodes].astype(int).tolist(),
        "left_children": tree.left.tolist(),
        "loss_changes": zeros,
        "parents": parents.tolist(),
        "right_children": tree.right.tolist(),
        "split_conditions": _digits(tree.number),
        "split_indices": np.where(tree.left >= 0, tree.feature, 0).tolist(),
        "split_type": kinds.tolist(),
        "sum_hessian": zeros,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": columns,
            "num_nodes": str(count),
            "size_leaf_vector": "1",
        },
    }


def _digits(values: Float[np.ndarray, "k"]) -> list[float]:
    """Single-precision numbers with the fewest digits that identify them, as XGBoost writes them."""
    return [float(text) for text in values.astype(np.float32).astype(str)]


def _booster(document: dict[str, Any]) -> Any:
    with library("xgboost"):
        import xgboost
    # One thread: the service runs several processes.
    booster = xgboost.Booster({"nthread": 1})
    try:
        booster.load_model(bytearray(json.dumps(document).encode()))
    except UNREADABLE as error:
        raise unreadable(error) from error
    return booster


def _predict(booster: Any, objective: str, manifest: Manifest, taken: TreeInput) -> Predict:
    def ask(X: np.ndarray, what: str) -> np.ndarray:
        # Straight from the array: a fifth faster than a DMatrix on single records.
        return np.asarray(booster.inplace_predict(taken.matrix(X), predict_type=what, validate_features=False))

    def margin(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        values = ask(X, "margin").astype(float)
        return values if manifest.favourable else -values

    def probability(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        if objective == "binary:logitraw":
            return sigmoid(margin(X))
        values = ask(X, "value")
        # The complement in single precision too, as `predict_proba` has it.
        return (values if manifest.favourable else np.float32(1.0) - values).astype(float)

    def points(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        return ask(X, "value").astype(float)

    return {Output.PROBABILITY: probability, Output.LOGIT: margin, Output.POINTS: points}[manifest.output]


# --- inside an estimator ---------------------------------------------------------------------------------------------


def _of_estimator(state: Any) -> Any:
    """A booster from the state of one: a document in UBJSON with the model."""
    document = parse_ubjson(bytes(state))
    learner = _validated(document["Model"]).learner
    model, columns = learner.gradient_booster.model, learner.learner_model_param.num_feature
    best, parallel = learner.attributes.best_iteration, model.gbtree_model_param.num_parallel_tree
    # The estimator predicts with the rounds up to the best one.
    parts = model.trees if best is None else model.trees[: (max(0, best) + 1) * parallel]
    trees, faults = _trees(parts, columns)
    faults += [] if best is not None else _learner_faults(learner)
    if any(any(part.split_type) for part in parts):
        faults.append(Fault("/artifact", "splits by categories; save its booster and use input: raw"))
    if faults:
        raise ModelRefused(faults=faults[:FAULTS])
    booster = _booster(_document(learner, trees, parts))
    booster.feature_names = learner.feature_names or None
    return booster


MEMBERS.append(
    Member(
        booster=("xgboost.core", "Booster"),
        state="handle",
        estimators=("xgboost.sklearn.XGBClassifier", "xgboost.sklearn.XGBRFClassifier"),
        make=_of_estimator,
        settings="kwargs",
    )
)
