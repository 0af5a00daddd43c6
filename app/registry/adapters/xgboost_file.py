"""The file of a booster of XGBoost, in JSON or UBJSON: what is read of it, its trees, and its splits by categories."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError

from app.errors import Fault, ModelRefused
from app.recourse.features import FeatureSpace
from app.registry.adapters.artifact import form_refusal, plain_number, refuse_repeated_keys, refused
from app.registry.adapters.tree_input import code_text, most_codes
from app.registry.adapters.trees import Tree
from app.registry.adapters.ubjson import is_ubjson
from app.registry.adapters.ubjson import parse as parse_ubjson

LARGEST = float(np.finfo(np.float32).max)

OTHER_OBJECTIVE = (
    "must be 'binary:logistic' or 'binary:logitraw': train a classifier of two classes; of binary:hinge and "
    "multi:softprob with two classes by binary:logistic, of more classes export it as ONNX"
)

Count = Annotated[int, Field(ge=0, lt=2**32)]

Index = Annotated[int, Field(strict=True, ge=-1, lt=2**32)]
"""Index of a node or column; the column of a pruned node is a marker near 2**32."""

Single = Annotated[FiniteFloat, Field(strict=True, ge=-LARGEST, le=LARGEST)]


def _written(value: Any) -> Any:
    """XGBoost writes parameters as texts, since version 3 the base score of one target as an array in one."""
    return plain_number(value.removeprefix("[").removesuffix("]") if isinstance(value, str) else value)


def without_drops(stated: Any) -> Any:
    """The data of a booster without DART's dropout: each leaf of a DART tree is multiplied by the weight of the tree.

    The data of other boosters is returned unchanged. Raises `ValueError` for a DART booster that lacks the weight of a
    tree.
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


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class TreeWithCategories(_Part):
    """The arrays of one tree that describe its splits by categories."""

    split_type: list[int] = []
    """1 for a split by categories."""
    categories: list[Count] = []
    """The categories that go right, node after node."""
    categories_nodes: list[Count] = []
    categories_segments: list[Count] = []
    """The index in `categories` at which those of each node begin."""
    categories_sizes: list[Count] = []


class EncodedCategories(_Part):
    """The categories of one column, joined into one array: numbers, or the bytes of texts in UTF-8.

    The array is empty for a column of numbers without categories.
    """

    offsets: list[int] | None = None
    values: list[Annotated[float, Field(ge=-(2.0**63), le=2.0**63)]] = []


class TreePart(TreeWithCategories):
    """The arrays of one tree, with one entry per node."""

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
    trees: Annotated[list[TreePart], Field(min_length=1)]


class _Booster(_Part):
    name: Literal["gbtree"]
    model: _Trees


class _LearnerParam(_Part):
    base_score: Annotated[Single, BeforeValidator(_written)]
    num_class: Annotated[int, Field(ge=0, le=1), BeforeValidator(_written)]
    num_feature: Annotated[int, BeforeValidator(_written)]
    num_target: Annotated[int, Field(ge=1, le=1), BeforeValidator(_written)] = 1


class _Objective(_Part):
    name: Annotated[
        Literal["binary:logistic", "binary:logitraw", "reg:squarederror", "reg:pseudohubererror", "reg:absoluteerror"],
        BeforeValidator(lambda name: "binary:logistic" if name == "reg:logistic" else name),
    ]
    """`reg:logistic` is `binary:logistic` with other metrics."""


class _Attributes(_Part):
    best_iteration: Annotated[int | None, BeforeValidator(_written)] = None


class Learner(_Part):
    """The ensemble, its objective and the names of its columns."""

    attributes: _Attributes = _Attributes()
    feature_names: list[str] = []
    gradient_booster: Annotated[_Booster, BeforeValidator(without_drops)]
    learner_model_param: _LearnerParam
    objective: _Objective


class File(_Part):
    """The parts of an XGBoost file that predictions need."""

    version: tuple[Annotated[int, Field(ge=1, le=3)], int, int]
    """Version of the XGBoost that wrote it."""
    learner: Learner


def parse(content: bytes) -> File:
    """The content of an XGBoost file in JSON or UBJSON. Raises `ModelRefused` where `content` is no such file."""
    refuse_repeated_keys(content)
    try:
        return validated(parse_ubjson(content) if is_ubjson(content) else content)
    except ValueError as error:
        raise refused(f"cannot be read as UBJSON: {error}") from error


def validated(document: Any) -> File:
    """The content of an XGBoost file, from JSON bytes or from plain data.

    Raises `ModelRefused` where `document` does not have the form of such a file.
    """
    try:
        if isinstance(document, bytes):
            return File.model_validate_json(document)
        return File.model_validate(document)
    except ValidationError as error:
        refusal = form_refusal(error)
        if other := [one for one in refusal.faults if "/objective/" in one.pointer]:  # explains all others
            raise ModelRefused(faults=[Fault(other[0].pointer, OTHER_OBJECTIVE)]) from error
        raise refusal from error


def trees_of(parts: Sequence[TreePart], columns: int) -> tuple[list[Tree], list[Fault]]:
    """The trees as arrays, and a fault for each tree with arrays of different lengths or with wrong indices.

    A tree with arrays of different lengths is left out of the first list.
    """
    trees: list[Tree] = []
    faults: list[Fault] = []
    for i, part in enumerate(parts):
        pointer = pointer_of(i)
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


def pointer_of(i: int) -> str:
    """The JSON pointer to tree `i` in the file."""
    return f"/artifact/learner/gradient_booster/model/trees/{i}"


def learner_faults(learner: Learner) -> list[Fault]:
    """Faults of the ensemble as a whole, such as fewer trees than the file says."""
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


def named_categories(encoded: Sequence[EncodedCategories]) -> dict[int, list[str]]:
    """The categories of each categorical column, as texts; a dict with column indices as keys.

    Raises `ModelRefused` where texts are not in UTF-8.
    """
    found: dict[int, list[str]] = {}
    for j, part in enumerate(encoded):
        if not part.values:
            continue
        if part.offsets is None:
            found[j] = [code_text(value) for value in part.values]
            continue
        try:
            text = bytes(int(value) % 256 for value in part.values)
            sides = zip(part.offsets, part.offsets[1:], strict=False)
            found[j] = [text[start:stop].decode() for start, stop in sides]
        except UnicodeDecodeError as error:
            raise refused("is no list of texts", f"/learner/gradient_booster/model/cats/enc/{j}") from error
    return found


def splits_of(part: TreeWithCategories) -> dict[int, list[int]]:
    """The category codes that go to the right child, for each node that splits by categories; a dict by node index.

    Raises `ValueError` if the arrays of the tree contradict each other.
    """
    found: dict[int, list[int]] = {}
    for node, start, size in zip(part.categories_nodes, part.categories_segments, part.categories_sizes, strict=True):
        if size < 1 or start < 0 or start + size > len(part.categories) or node in found:
            raise ValueError
        found[node] = part.categories[start : start + size]
    return found


def category_faults(
    parts: Sequence[TreeWithCategories], trees: Sequence[Tree], space: FeatureSpace
) -> tuple[set[int], list[int]]:
    """The indices of the columns that trees split by categories, and the indices of the trees with an unsound split.

    A split is unsound where the arrays of the tree contradict each other, or where a code in the split belongs to no
    category of the column.
    """
    asked: set[int] = set()
    unsound: list[int] = []
    most = [most_codes(space, j) for j in range(space.p)]
    for i, (part, tree) in enumerate(zip(parts, trees, strict=True)):
        kinds = np.array(part.split_type or [0] * len(tree.left))
        try:
            splits = splits_of(part)
            nodes = np.flatnonzero((kinds != 0) & (tree.left >= 0)) if len(kinds) == len(tree.left) else None
            sound = nodes is not None and set(nodes.tolist()) <= splits.keys() and bool(np.isin(kinds, (0, 1)).all())
            own = {int(node): int(tree.feature[node]) for node in nodes} if sound and nodes is not None else {}
            sound = sound and all(0 <= code < most[j] for node, j in own.items() for code in splits[node])
        except ValueError:
            sound, own = False, {}
        asked.update(own.values())
        if not sound:
            unsound.append(i)
    return asked, unsound
