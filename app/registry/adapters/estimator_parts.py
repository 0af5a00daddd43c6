"""The parts of an estimator, and whether scikit-learn's compiled code can use them without invalid memory access.

That code checks no index: it walks the nodes of trees, adds up the stages of gradient boosting and reads the support
vectors of libsvm as they are in the file. So the parts are checked here first. The Python code of scikit-learn compares
a table with `n_features_in_`, but only if an estimator has it.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from app.errors import Fault, ModelRefused
from app.registry.adapters.artifact import UNREADABLE, refused

# --- boosters inside a file -------------------------------------------------------------------------------------------


SCHEMA = "schema.json"
"""Member of a skops file that describes its objects."""


class Held:
    """Replaces a booster while a skops file is read, and keeps the state of that booster as plain data.

    Without this class, skops would pass the state to compiled code, unchecked. Before skops reads the file, the type of
    every booster in the file is therefore changed to `Held`, which only stores the state. Later the adapter for XGBoost
    or LightGBM reads the state, checks it, and makes a new booster.
    """


HELD = f"{Held.__module__}.{Held.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """How estimators of one library, such as XGBoost, store a booster, and how to make a booster from its state."""

    booster: tuple[str, str]
    """Module and name of its boosters."""
    state: str
    """Attribute of a booster with its state."""
    estimators: tuple[str, ...]
    """Types that have a booster, in their attribute ``_Booster``."""
    make: Callable[[Any], Any]
    """A booster from a state, which may be any object. Raises `ModelRefused`, or one of `UNREADABLE`."""
    settings: str
    """Attribute with further parameters, which are left out."""


MEMBERS: list[Member] = []
"""Filled by the adapters of the libraries."""


def without_boosters(content: bytes) -> bytes:
    """The bytes of a skops file in which `Held` replaces each booster; unchanged where the file has no booster.

    Raises one of the errors in `UNREADABLE`.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        schema = json.loads(archive.read(SCHEMA))
        if not _hold(schema):
            return content
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w") as copy:
            for name in dict.fromkeys(archive.namelist()):
                copy.writestr(name, json.dumps(schema) if name == SCHEMA else archive.read(name))
    return found.getvalue()


def _hold(schema: Any) -> int:
    """Rename the types of boosters; how many there were."""
    boosters = {member.booster for member in MEMBERS}
    count, stack = 0, [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if (node.get("__module__"), node.get("__class__")) in boosters:
                node |= {"__module__": Held.__module__, "__class__": Held.__qualname__}
                count += 1
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return count


def types_of_members() -> list[str]:
    """Names of the types that a skops file may have besides those of scikit-learn.

    They are `Held`, OrderedDict, and the types of estimators that have a booster.
    """
    return [HELD, "collections.OrderedDict", *(name for member in MEMBERS for name in member.estimators)]


def with_boosters(parts: Sequence[Any]) -> None:
    """Replace each `Held` among the attributes of `parts` by a real booster, made from the state that the `Held` keeps.

    Raises `ModelRefused` where a state is no sound ensemble, or a `Held` does not belong to an estimator.
    """
    known = {name: member for member in MEMBERS for name in member.estimators}
    placed: set[int] = set()
    for part in parts:
        member = known.get(f"{type(part).__module__}.{type(part).__qualname__}")
        held = vars(part).get("_Booster") if member else None
        if member is None or held is None:  # of an estimator that is fitted as a copy only
            continue
        if not isinstance(held, Held):
            raise refused(f"holds a {type(part).__name__} with a booster of another type")
        if not all(_plain(value) for name, value in vars(part).items() if not name.startswith("_")):
            raise refused(f"holds a {type(part).__name__} with parameters that are no plain values")
        setattr(part, member.settings, {})
        try:
            part._Booster = member.make(vars(held).get(member.state))
        except ModelRefused as error:
            pointer = f"/artifact/{type(part).__name__}"
            faults = [Fault(pointer + one.pointer.removeprefix("/artifact"), one.detail) for one in error.faults]
            raise ModelRefused(faults=faults) from error
        except UNREADABLE as error:
            raise refused(f"holds a {type(part).__name__} that cannot be read: {error}"[:500]) from error
        placed.add(id(held))
    if any(isinstance(part, Held) and id(part) not in placed for part in parts):
        raise refused("holds a booster outside of an estimator")


def _plain(value: Any) -> bool:
    """Whether a parameter is a single value, which is all that its library makes of it."""
    if isinstance(value, list | tuple | set):
        return all(_plain(one) for one in value)
    if isinstance(value, dict):
        return all(_plain(one) for pair in value.items() for one in pair)
    return not isinstance(value, str) or not any(mark.isspace() or mark == "=" for mark in value)


def parts_of(estimator: Any) -> Iterator[Any]:
    """The estimator and every object inside it, at any depth, other than dicts, sequences, sets and arrays."""
    seen: set[int] = set()
    stack = [estimator]
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            stack += [*part.values(), *_state(part).values()]
        elif isinstance(part, list | tuple | set | frozenset):
            stack.extend(part)
        elif isinstance(part, np.ndarray):
            stack.extend(part.ravel().tolist() if part.dtype == object else ())
        else:
            stack.extend(_inside(part))
            yield part


def _inside(part: Any) -> Sequence[Any]:
    if isinstance(part, partial):
        return [part.func, part.args, part.keywords]
    if isinstance(part, MethodType):
        return [part.__self__]
    return list(_state(part).values())


def _state(part: Any) -> dict[str, Any]:
    if isinstance(part, type | ModuleType):
        return {}
    state = getattr(part, "__dict__", {})
    return state if isinstance(state, dict) else {}


def single_thread(parts: Sequence[Any]) -> None:
    """Make each part of an estimator use one thread.

    The service runs several processes, and starting threads costs more than scoring a record.
    """
    for part in parts:
        if "n_jobs" in _state(part):
            part.n_jobs = 1


def memory_faults(parts: Sequence[Any]) -> list[Fault]:
    """The fault of parts with which compiled code of scikit-learn could access invalid memory.

    The list has one fault, or none if there are no such parts.
    """
    from sklearn.svm._base import BaseLibSVM

    if any(isinstance(part, BaseLibSVM) for part in parts):
        detail = "holds a support vector machine of libsvm, which cannot be examined; store the model as ONNX"
    elif not all(_counts_columns(part) for part in parts if _trees(part) or _predictors(part)):
        detail = "holds decision trees without n_features_in_, the number of their columns"
    elif not _all_owned(parts) or not all(_holds(_sound, part) for part in parts if _counts_columns(part)):
        detail = "holds a decision tree whose nodes point outside of it or of its columns"
    elif not all(_holds(_sound_stages, part) for part in parts):
        detail = 'holds gradient boosting whose stages do not fit its start, or with another `init` than None or "zero"'
    else:
        return []
    return [Fault("/artifact", detail)]


def _holds(check: Callable[[Any], bool], part: Any) -> bool:
    """Whether a part passes a check; False if it lacks the checked attributes."""
    try:
        return check(part)
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


# --- trees and their owners ------------------------------------------------------------------------------------------


def _trees(part: Any) -> list[Any]:
    """The trees that this part uses: its own, and those of its members."""
    members = np.ravel(np.asarray(_state(part).get("estimators_", ()), dtype=object))
    return [_state(owner)["tree_"] for owner in (part, *members) if "tree_" in _state(owner)]


def _predictors(part: Any) -> list[Any]:
    return [predictor for stage in _state(part).get("_predictors", ()) for predictor in stage]


def _counts_columns(part: Any) -> bool:
    return isinstance(getattr(part, "n_features_in_", None), int | np.integer)


def _all_owned(parts: Sequence[Any]) -> bool:
    """Whether each tree has an owner with a number of columns; otherwise they are never compared with the table."""
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.tree import BaseDecisionTree
    from sklearn.tree._tree import Tree

    owned = {id(_state(part).get("tree_")) for part in parts if isinstance(part, BaseDecisionTree)}
    owned |= {id(predictor) for part in parts for predictor in _predictors(part)}
    return all(id(part) in owned for part in parts if isinstance(part, Tree | TreePredictor))


def _sound(owner: Any) -> bool:
    columns = int(owner.n_features_in_)
    state = _state(owner)
    categorical = getattr(state.get("_bin_mapper"), "is_categorical_", None)
    return (
        all(_sound_tree(tree, columns) for tree in _trees(owner))
        and all(_sound_predictor(predictor, columns, categorical) for predictor in _predictors(owner))
        and (not _predictors(owner) or _keeps_columns(state.get("_preprocessor"), columns))
    )


def _sound_tree(tree: Any, columns: int) -> bool:
    from sklearn.tree._tree import Tree

    if type(tree) is not Tree or not 1 <= tree.node_count <= tree.capacity:
        return False
    inner = tree.children_left != -1
    return _sound_nodes(inner, tree.children_left, tree.children_right, tree.feature, columns)


def _sound_predictor(predictor: Any, columns: int, categorical: np.ndarray | None) -> bool:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    if not len(nodes) or not _sound_nodes(inner, nodes["left"], nodes["right"], nodes["feature_idx"], columns):
        return False
    split = nodes[inner & (nodes["is_categorical"] != 0)]
    if not len(split):
        return True
    bitsets = predictor.raw_left_cat_bitsets
    return (
        categorical is not None
        and len(categorical) == columns
        and bool(np.asarray(categorical)[split["feature_idx"]].all())
        and bitsets.ndim == 2
        and bitsets.shape[1] == 8
        and bool((split["bitset_idx"] < len(bitsets)).all())
    )


def _sound_nodes(inner: np.ndarray, left: np.ndarray, right: np.ndarray, feature: np.ndarray, columns: int) -> bool:
    """Whether inner nodes refer to later nodes of the tree, so that every walk ends, and to columns of the input."""
    index = np.flatnonzero(inner)
    children = np.stack([left[index], right[index]]).astype(np.int64)
    columns_used = feature[index].astype(np.int64)
    return bool(
        ((children > index) & (children < len(inner))).all() and ((columns_used >= 0) & (columns_used < columns)).all()
    )


def _keeps_columns(preprocessor: Any, columns: int) -> bool:
    """Whether the encoder of categories before boosted histograms is scikit-learn's own: as many columns out as in."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
    from sklearn.utils import check_array

    if preprocessor is None:
        return True
    if type(preprocessor) is not ColumnTransformer:
        return False
    steps = [(step, np.asarray(mask)) for _, step, mask in preprocessor.transformers_ if step != "drop"]
    return sum(int(mask.sum()) for _, mask in steps) == columns and all(
        mask.dtype == bool
        and mask.shape == (columns,)
        and (
            type(step) is OrdinalEncoder
            or (type(step) is FunctionTransformer and getattr(step.func, "func", None) is check_array)
        )
        for step, mask in steps
    )


def _sound_stages(part: Any) -> bool:
    """Whether gradient boosting has a sum for each tree of a stage."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.tree import BaseDecisionTree

    if not isinstance(part, BaseGradientBoosting):
        return True
    stages, start = part.estimators_, part.init_
    if stages.ndim != 2 or part.n_trees_per_iteration_ != stages.shape[1]:
        return False
    if not all(isinstance(tree, BaseDecisionTree) for tree in stages.ravel()):
        return False
    if isinstance(start, str):
        return start == "zero"
    if type(start) is DummyRegressor:
        return np.asarray(start.constant_).shape == (1, 1) and stages.shape[1] == 1
    # Another initial estimator would have to be called for its width, before it is checked.
    shares = np.asarray(start.class_prior_)
    return type(start) is DummyClassifier and start._strategy == "prior" and shares.shape == (max(2, stages.shape[1]),)
