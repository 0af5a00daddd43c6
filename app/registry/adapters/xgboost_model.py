"""Boosted trees of XGBoost, as `save_model` writes them, in JSON or UBJSON; binary classification only.

The file is data: it is read and checked here, and XGBoost loads the new file that `_document` writes (see `trees`).
Outputs are those of XGBoost, in single precision, so a threshold taken from its probabilities has the same meaning.

With ``input: raw`` trees may split by categories; a record goes right where its category is among those of the node.
XGBoost 3 stores the categories of a DataFrame (``cats``), others are positions in the manifest.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import Fault, ModelRefused
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox, Input, Predict
from app.recourse.models.score import Output, logit, sigmoid
from app.recourse.models.tree_boxes import single_precision_edge
from app.registry.adapters.artifact import FAULTS, UNREADABLE, black_box_of, read_artifact, unreadable
from app.registry.adapters.estimator_parts import MEMBERS, Member
from app.registry.adapters.optional_import import library
from app.registry.adapters.tree_input import TreeInput, most_codes, tree_input, with_codes
from app.registry.adapters.trees import Routes, Tree, with_leaves
from app.registry.adapters.ubjson import parse as parse_ubjson
from app.registry.adapters.xgboost_file import (
    Learner,
    TreePart,
    category_faults,
    learner_faults,
    named_categories,
    parse,
    pointer_of,
    splits_of,
    trees_of,
    validated,
)
from app.registry.manifest import Manifest
from app.registry.trust import Trust

REGRESSOR = "must be 'binary:logistic' or 'binary:logitraw': train a classifier of two classes, or say output: points"

ROOT = 2**31 - 1
"""XGBoost's parent of a node without one."""


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of an XGBoost model.

    The black box also has the leaves of the trees, but where these read a number as missing or are too many.

    Raises `ModelRefused` where the file is no sound ensemble for the manifest; `ModelUnusable` without XGBoost.
    """
    learner, trees, taken = read_trees(read_artifact(manifest, directory), manifest, space)
    taken.warn()
    parts = learner.gradient_booster.model.trees
    booster = _booster(_document(learner, trees, parts))
    predict = _predict(booster, learner.objective.name, manifest, taken)
    black_box = black_box_of(manifest, space, predict, rowwise=True)
    return with_leaves(black_box, trees, _edges, taken, [_routes(part, space) for part in parts])


def _edges(threshold: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"]:
    """The largest number that goes left, given that XGBoost compares in single precision."""
    return single_precision_edge(threshold, strict=True)


def _routes(part: TreePart, space: FeatureSpace) -> Routes:
    codes_left = {}
    for node, codes in splits_of(part).items() if any(part.split_type) else ():
        goes = np.ones(most_codes(space, part.split_indices[node]), dtype=bool)
        goes[codes] = False
        codes_left[node] = goes
    return Routes(missing_left=np.array(part.default_left), codes_left=codes_left)


def read_trees(content: bytes, manifest: Manifest, space: FeatureSpace) -> tuple[Learner, list[Tree], TreeInput]:
    """The learner of the file, its trees, and the `TreeInput` that converts rows to the matrix for the trees.

    Raises `ModelRefused` where the bytes are no sound ensemble over the columns of `space`.
    """
    learner = parse(content).learner
    model, columns = learner.gradient_booster.model, learner.learner_model_param.num_feature
    taken, faults = tree_input(manifest, space, learner.feature_names or None, columns)
    trees, unsound = trees_of(model.trees, columns)
    faults = [*unsound, *faults]
    if manifest.input is Input.ENCODED:
        by_name = "splits by categories; write input: raw, which is one column for each feature"
        faults += [Fault(pointer_of(i), by_name) for i, part in enumerate(model.trees) if any(part.split_type)]
    elif not faults:
        named = named_categories(model.cats.enc)
        asked, wrong = category_faults(model.trees, trees, space)
        taken, differing = with_codes(taken, manifest, space, named, asked)
        outside = "has splits by categories that its features do not have"
        faults += differing or [Fault(pointer_of(i), outside) for i in wrong]
    faults += learner_faults(learner)
    regressor = learner.objective.name.startswith("reg:")
    if regressor and manifest.output is not Output.POINTS:
        faults = [Fault("/artifact/learner/objective/name", REGRESSOR)]
    elif manifest.output is Output.POINTS and not regressor:
        faults.append(Fault("/output", "must be probability or logit: the model is a classifier"))
    if faults:
        raise ModelRefused(faults=faults[:FAULTS])
    return learner, trees, taken


def merged(models: Sequence[tuple[Learner, Sequence[Tree]]]) -> tuple[Any, Float[np.ndarray, "k"]]:
    """One booster of XGBoost that joins k ensembles, and the base margin of each ensemble, (k,).

    It is a model of k classes. Column i of its raw margins (n, k) is the sum of the trees of ensemble i;
    the caller adds the base margin of ensemble i.
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
    return _booster(documents[0]), np.where(logits, base, logit(base))


# --- to the library --------------------------------------------------------------------------------------------------


def _document(learner: Learner, trees: Sequence[Tree], parts: Sequence[TreePart]) -> dict[str, Any]:
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


def _tree_document(i: int, tree: Tree, part: TreePart, columns: str) -> dict[str, Any]:
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
    sizes_of_tree = {"num_deleted": "0", "num_feature": columns, "num_nodes": str(count), "size_leaf_vector": "1"}
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
        "tree_param": sizes_of_tree,
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
        return (1.0 if manifest.favourable else -1.0) * ask(X, "margin").astype(float)

    def probability(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        if objective == "binary:logitraw":
            return sigmoid(margin(X))
        values = ask(X, "value")
        # The complement in single precision too, as `predict_proba` has it.
        return (values if manifest.favourable else np.float32(1.0) - values).astype(float)

    if manifest.output is Output.POINTS:
        return lambda X: ask(X, "value").astype(float)
    return probability if manifest.output is Output.PROBABILITY else margin


# --- inside an estimator ---------------------------------------------------------------------------------------------


def _of_estimator(state: Any) -> Any:
    """A booster from the state of one: a document in UBJSON with the model."""
    document = parse_ubjson(bytes(state))
    learner = validated(document["Model"]).learner
    model, columns = learner.gradient_booster.model, learner.learner_model_param.num_feature
    best, parallel = learner.attributes.best_iteration, model.gbtree_model_param.num_parallel_tree
    # The estimator predicts with the rounds up to the best one.
    parts = model.trees if best is None else model.trees[: (max(0, best) + 1) * parallel]
    trees, faults = trees_of(parts, columns)
    faults += [] if best is not None else learner_faults(learner)
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
