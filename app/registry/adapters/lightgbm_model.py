"""Boosted trees of LightGBM, as its `save_model` writes them; binary classification only.

The file is text: lines ``key=value``, a block of them for the whole and one for each tree. It is read and checked here,
and LightGBM loads the new file that `_text` writes (see `trees`). In a tree with L leaves, the inner nodes have the
numbers 0 to L - 2, and a child -1 - i is leaf i.

With ``input: raw`` trees may split by categories: the threshold of such a node is the index of a bitset, and a record
goes left where the bit of its category is set. The categories of a DataFrame are at the end of the file
(``pandas_categorical``), others are positions in the manifest.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import Fault, ModelRefused
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox, Input, Predict
from app.recourse.models.score import Output
from app.registry.adapters.artifact import UNREADABLE, black_box_of, read_artifact, refused, unreadable
from app.registry.adapters.estimator_parts import MEMBERS, Member
from app.registry.adapters.lightgbm_categories import Bitsets, named_categories, pandas_categories
from app.registry.adapters.optional_import import library
from app.registry.adapters.tree_input import TreeInput, tree_input, with_codes
from app.registry.adapters.trees import Routes, Tree, with_leaves
from app.registry.manifest import Manifest
from app.registry.trust import Trust

VERSIONS = ("v3", "v4")

END = "end of trees"

REGRESSORS = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
"""Objectives whose output is the sum of the trees."""


MOST_WORDS = 400
"""Words of a set of categories, of 32 bits each."""

ZERO = float(np.float32(1e-35))
"""LightGBM treats numbers up to this magnitude as 0."""

CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, MISSING_NAN = 1, 2, 4, 8
"""Bits of a node's `decision_type`: it splits by categories; what is missing goes left, namely 0; namely NaN."""

DECISIONS = 11
"""Largest `decision_type`."""

UNWRITTEN = re.compile(r"[^0-9eE.+\-\sinfaINFA]")
"""What no number of a file has; NumPy takes 1_000 and digits of other scripts."""

LIMIT = 2**31 - 1
"""Largest whole number of a file."""

NO_SETS = Bitsets(starts=np.zeros(1, dtype=np.int64), words=np.zeros(0, dtype=np.int64))
"""The sets of a tree without splits by categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One tree of the file, its inner nodes first."""

    tree: Tree
    decisions: np.ndarray
    """`decision_type` of its inner nodes."""
    sets: Bitsets
    """The sets of its splits by categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The parts of the file that predictions need."""

    header: Mapping[str, str]
    parts: tuple[_Part, ...]
    categories: tuple[tuple[Any, ...], ...] = ()
    """`pandas_categorical`: the categories of each column of a DataFrame that has some."""


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of a LightGBM model.

    The black box also has the leaves of the trees, but where these read a number as missing or are too many.

    Raises `ModelRefused` where the file is no sound ensemble for the manifest; `ModelUnusable` without LightGBM.
    """
    file, slope, taken = read_trees(read_artifact(manifest, directory), manifest, space)
    taken.warn()
    booster = _booster(_text(file, slope, taken.count))
    black_box = black_box_of(manifest, space, _predict(booster, slope, manifest, taken), rowwise=True)
    if any((part.decisions & MISSING_ZERO).any() for part in file.parts):
        return black_box  # 0 goes its own way, which no leaf can describe
    return with_leaves(
        black_box, [part.tree for part in file.parts], _edges, taken, [_routes(part) for part in file.parts]
    )


def _routes(part: _Part) -> Routes:
    """Where a tree sends missing values, NaN going where 0 goes if training had none, and codes."""
    inner = len(part.decisions)
    by_code = part.decisions & CATEGORICAL > 0
    left = np.where(part.decisions & MISSING_NAN > 0, part.decisions & DEFAULT_LEFT > 0, part.tree.number[:inner] >= 0)
    missing_left = np.zeros(len(part.tree.left), dtype=bool)
    missing_left[:inner] = left & ~by_code
    sets = part.tree.number[:inner].astype(int)
    return Routes(
        missing_left=missing_left,
        codes_left={int(node): part.sets.codes(sets[node]) for node in np.flatnonzero(by_code)},
    )


def read_trees(content: bytes, manifest: Manifest, space: FeatureSpace) -> tuple[_File, float, TreeInput]:
    """The parsed file, the slope of its sigmoid, and the `TreeInput` that converts rows to the matrix for the trees.

    Raises `ModelRefused` where the bytes are no sound ensemble over the columns of `space`.
    """
    file = _parse(content)
    slope, faults = _header_faults(file.header, points=manifest.output is Output.POINTS)
    names, count = _columns(file.header)
    taken, differing = tree_input(manifest, space, names, count)
    faults += differing + _tree_faults(file, count)
    asked = {
        int(j)
        for part in file.parts
        for j in part.tree.feature[: len(part.decisions)][part.decisions & CATEGORICAL > 0]
    }
    if asked and manifest.input is Input.ENCODED:
        faults.append(Fault("/artifact/tree", "splits by categories; write input: raw, which is one column for each "
                                              "feature"))  # fmt: skip
    elif manifest.input is Input.RAW and not faults:
        named, more = named_categories(file.categories, space)
        taken, differing = with_codes(taken, manifest, space, named, asked)
        faults += more + differing
    if faults:
        raise ModelRefused(faults=faults)
    return file, slope, taken


def merged(models: Sequence[_File], columns: int) -> bytes:
    """The text of one LightGBM model that joins k ensembles: column i of its raw scores (n, k) is from ensemble i.

    LightGBM reads it as a model of k classes: trees i, i + k, i + 2k and so on belong to class i. Shorter ensembles are
    therefore extended by trees with a single leaf of value 0. `columns` is the number of input columns.
    """
    end = np.array([-1])
    leaf = Tree(feature=end, number=np.zeros(1), left=end, right=end)
    empty = _Part(tree=leaf, decisions=np.zeros(0, dtype=np.int64), sets=NO_SETS)
    parts: list[_Part] = []
    for i in range(max(len(file.parts) for file in models)):
        for file in models:
            part = file.parts[i] if i < len(file.parts) else empty
            if "average_output" in file.header:
                share = np.where(part.tree.left < 0, 1.0 / len(file.parts), 1.0)
                part = replace(part, tree=replace(part.tree, number=part.tree.number * share))
            parts.append(part)
    return _text(_File(header={}, parts=tuple(parts)), 1.0, columns, classes=len(models)).encode()


# --- from the file ---------------------------------------------------------------------------------------------------


def _parse(content: bytes) -> _File:
    """The parsed file. Raises `ModelRefused` at the first fault."""
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise unreadable(error) from error
    if END not in lines:
        raise refused(f'has no line "{END}"; it is cut off or no model of LightGBM')
    starts = [i for i, line in enumerate(lines[: lines.index(END)]) if line.startswith("Tree=")]
    if not starts or lines[0] != "tree":
        raise refused("has no trees")
    header = _block(lines[1 : starts[0]], "")
    parts = tuple(
        _part(_block(lines[start:stop], f"/tree/{i}"), f"/tree/{i}")
        for i, (start, stop) in enumerate(zip(starts, [*starts[1:], lines.index(END)], strict=True))
    )
    if len(header.get("tree_sizes", "").split()) != len(parts):
        raise refused(f"are not those of {len(parts)} trees", "/tree_sizes")
    return _File(header=header, parts=parts, categories=pandas_categories(lines[lines.index(END) :]))


def _block(lines: Iterable[str], pointer: str) -> dict[str, str]:
    block: dict[str, str] = {}
    for line in filter(None, lines):
        key, _, value = line.partition("=")
        if key in block:
            raise refused("is given twice", f"{pointer}/{key[:50]}")
        block[key] = value
    return block


def _part(block: Mapping[str, str], pointer: str) -> _Part:
    """The tree of a block."""

    def numbers(key: str, count: int, kind: type, limit: int = LIMIT) -> np.ndarray:
        try:
            if UNWRITTEN.search(block[key]):
                raise ValueError
            values: np.ndarray = np.array(block[key].split(), dtype=kind)
        except KeyError as error:
            raise refused("is missing", f"{pointer}/{key}") from error
        except (ValueError, OverflowError) as error:
            raise refused("is no list of numbers", f"{pointer}/{key}") from error
        # A threshold of inf sends every number left, and only a missing one may go right.
        known = values < np.inf if key != "threshold" else ~np.isnan(values)
        if len(values) != count or not (known & (values > -np.inf)).all():
            raise refused(f"must be {count} finite numbers", f"{pointer}/{key}")
        if kind is np.int64 and ((values < -limit) | (values > limit)).any():
            raise refused("has numbers that no tree has", f"{pointer}/{key}")
        return values

    leaves = int(numbers("num_leaves", 1, np.int64)[0])
    if leaves < 1:
        raise refused("must be at least 1", f"{pointer}/num_leaves")
    value = numbers("leaf_value", leaves, np.float64)
    sets = int(numbers("num_cat", 1, np.int64)[0])
    if block.get("is_linear", "0") != "0":
        raise refused("must be 0: trees with linear models in their leaves are not supported", f"{pointer}/is_linear")
    inner = leaves - 1
    decision = numbers("decision_type", inner, np.int64)
    if ((decision < 0) | (decision > DECISIONS)).any():
        raise refused("must describe comparisons, or splits by categories", f"{pointer}/decision_type")
    threshold = numbers("threshold", inner, np.float64)
    bitsets = NO_SETS
    if sets:
        if not 0 < sets <= inner:
            raise refused("must be the number of splits by categories", f"{pointer}/num_cat")
        starts = numbers("cat_boundaries", sets + 1, np.int64)
        if starts[0] != 0 or (np.diff(starts) < 1).any() or starts[-1] > MOST_WORDS * sets:
            raise refused("must rise from 0", f"{pointer}/cat_boundaries")
        words = numbers("cat_threshold", int(starts[-1]), np.int64, 2**32 - 1)
        if (words < 0).any():
            raise refused("must be words of 32 bits", f"{pointer}/cat_threshold")
        bitsets = Bitsets(starts=starts, words=words)
    split = threshold[decision & CATEGORICAL > 0]
    if not ((split >= 0) & (split < sets) & (split == np.floor(split))).all():
        raise refused("must be the index of a set for each split by categories", f"{pointer}/threshold")
    left, right = (numbers(key, inner, np.int64) for key in ("left_child", "right_child"))
    absent = np.full(leaves, -1)
    tree = Tree(
        feature=np.concatenate([numbers("split_feature", inner, np.int64), absent]),
        number=np.concatenate([threshold, value]),
        left=np.concatenate([np.where(left < 0, inner - 1 - left, left), absent]),
        right=np.concatenate([np.where(right < 0, inner - 1 - right, right), absent]),
    )
    return _Part(tree=tree, decisions=decision, sets=bitsets)


def _header_faults(header: Mapping[str, str], *, points: bool = False) -> tuple[float, list[Fault]]:
    """Slope of the sigmoid, and the faults if this is not a binary classifier, or with `points` a regressor."""
    faults: list[Fault] = []
    if header.get("version") not in VERSIONS:
        faults.append(Fault("/artifact/version", f"must be one of {', '.join(VERSIONS)}"))
    faults += [
        Fault(f"/artifact/{key}", "must be 1: one output for the class 1")
        for key in ("num_class", "num_tree_per_iteration")
        if header.get(key) != "1"
    ]
    objective = header.get("objective", "")
    if points and objective.split(" ")[0] in REGRESSORS and "sqrt" not in objective:
        return 1.0, faults
    found = re.fullmatch(r"binary sigmoid:([0-9.eE+-]{1,30})", objective)
    try:
        slope = float(found[1]) if found else 0.0
    except ValueError:
        slope = 0.0
    if not 0.0 < slope < float("inf"):
        faults.append(Fault("/artifact/objective", 'must be binary, as in "binary sigmoid:1"'))
    elif points:
        faults.append(Fault("/output", "must be probability or logit: the model is a classifier"))
    return slope, faults


def _columns(header: Mapping[str, str]) -> tuple[list[str] | None, int]:
    """Names of the columns, None where the lender gave none, and their number."""
    count = header.get("max_feature_idx", "")
    if not re.fullmatch("[0-9]{1,9}", count):
        raise refused("must be the number of columns less one", "/max_feature_idx")
    names = header.get("feature_names", "").split(" ")
    if names == [f"Column_{j}" for j in range(len(names))]:
        return None, int(count) + 1
    if len(names) != int(count) + 1:
        raise refused(f"must be {int(count) + 1} names", "/feature_names")
    return names, int(count) + 1


def _tree_faults(file: _File, columns: int) -> list[Fault]:
    faults: list[Fault] = []
    for i, part in enumerate(file.parts):
        fault = part.tree.fault(columns)
        if fault is None and len(part.tree.reached()) < len(part.tree.left):
            fault = "has nodes that its root does not lead to"
        faults += [] if fault is None else [Fault(f"/artifact/tree/{i}", fault)]
    return faults


def _edges(threshold: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"]:
    """The largest number that goes left, given that numbers near 0 are treated as 0."""
    near = np.abs(threshold) <= ZERO
    return np.where(near, np.where(threshold >= 0.0, ZERO, np.nextafter(-ZERO, -np.inf)), threshold)


# --- to the library --------------------------------------------------------------------------------------------------


def _text(file: _File, slope: float, columns: int, *, classes: int = 1, names: Sequence[str] | None = None) -> str:
    """The file that LightGBM 4 would write, without what predictions do not need."""
    blocks = [_tree_text(i, part.tree, part.decisions, part.sets) for i, part in enumerate(file.parts)]
    header = [
        "tree",
        "version=v4",
        f"num_class={classes}",
        f"num_tree_per_iteration={classes}",
        "label_index=0",
        f"max_feature_idx={columns - 1}",
        f"objective=binary sigmoid:{slope!r}" if classes == 1 else f"objective=multiclass num_class:{classes}",
        *(["average_output"] if "average_output" in file.header else []),
        "feature_names=" + " ".join(names or [f"Column_{j}" for j in range(columns)]),
        "feature_infos=" + " ".join(["none"] * columns),
        # LightGBM finds the trees by these lengths.
        "tree_sizes=" + " ".join(str(len(block)) for block in blocks),
    ]
    return "\n".join(header) + "\n\n" + "".join(blocks) + f"{END}\n"


def _tree_text(i: int, tree: Tree, decision: np.ndarray, bitsets: Bitsets) -> str:
    inner = len(decision)

    def children(nodes: np.ndarray) -> list[int]:
        return np.where(nodes[:inner] < inner, nodes[:inner], inner - 1 - nodes[:inner]).tolist()

    lists = {
        "split_feature": tree.feature[:inner].tolist(),
        "threshold": tree.number[:inner].tolist(),
        "decision_type": decision.tolist(),
        "left_child": children(tree.left),
        "right_child": children(tree.right),
        "leaf_value": tree.number[inner:].tolist(),
    }
    if sets := len(bitsets.starts) - 1:
        lists |= {"cat_boundaries": bitsets.starts.tolist(), "cat_threshold": bitsets.words.tolist()}
        chosen = decision & CATEGORICAL > 0
        lists["threshold"] = [int(x) if c else x for x, c in zip(lists["threshold"], chosen, strict=True)]
    return "\n".join([
        f"Tree={i}", f"num_leaves={inner + 1}", f"num_cat={sets}",
        *(f"{key}={' '.join(map(repr, values))}" for key, values in lists.items()),
        "is_linear=0", "shrinkage=1", "\n\n",
    ])  # fmt: skip


def _booster(text: str) -> Any:
    with library("lightgbm"):
        import lightgbm
    try:
        return lightgbm.Booster(model_str=text)
    except (lightgbm.basic.LightGBMError, *UNREADABLE) as error:
        raise unreadable(error) from error


def _predict(booster: Any, slope: float, manifest: Manifest, taken: TreeInput) -> Predict:
    def ask(X: np.ndarray, *, raw_score: bool) -> np.ndarray:
        if not len(X):
            return np.zeros(0)  # LightGBM raises
        # One thread: the service runs several processes.
        return np.asarray(booster.predict(taken.matrix(X), raw_score=raw_score, num_threads=1))

    def probability(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        value = ask(X, raw_score=False)
        return value if manifest.favourable else 1.0 - value

    factor = 1.0 if manifest.output is Output.POINTS else slope if manifest.favourable else -slope
    return probability if manifest.output is Output.PROBABILITY else lambda X: factor * ask(X, raw_score=True)


# --- inside an estimator ---------------------------------------------------------------------------------------------


def _of_estimator(state: Any) -> Any:
    """A booster from the state of one, which is its text."""
    file = _parse(str(state).encode())
    slope, faults = _header_faults(file.header)
    names, count = _columns(file.header)
    faults += _tree_faults(file, count)
    if any((part.decisions & CATEGORICAL).any() for part in file.parts):
        faults.append(Fault("/artifact", "splits by categories; save its booster_ and use input: raw"))
    if faults:
        raise ModelRefused(faults=faults)
    return _booster(_text(file, slope, count, names=names))


MEMBERS.append(
    Member(
        booster=("lightgbm.basic", "Booster"),
        state="_handle",
        estimators=("lightgbm.sklearn.LGBMClassifier",),
        make=_of_estimator,
        settings="_other_params",
    )
)
