"""Many models of one kind, packed into few files and scored by few calls.

Networks are kept as stacked weights, linear models as one matrix, boosted trees as one ensemble of many classes, and
pipelines that end in a linear classifier as the weights of what it makes of each value. Models of other kinds are kept
as they are, and asked one after the other.

Scores are those of the models' own black boxes, in the units of `app.recourse.models.black_box`: favourable iff >= 0.
Boosted trees and networks may differ from them in the last bits of single precision.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, Self

import numpy as np
from jaxtyping import Float, Int

from app.errors import ModelOutputInvalid
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import ScoreAll
from app.recourse.models.score import LOGIT_LIMIT, Output
from app.registry.adapters import ADAPTERS
from app.registry.adapters.linear_model import read_weights
from app.registry.adapters.optional_import import library
from app.registry.adapters.torch_model import ACTIVATIONS, read_network
from app.registry.adapters.tree_input import TreeInput
from app.registry.artifact import Activation, Format
from app.registry.manifest import Manifest
from app.registry.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of all trees of several models as arrays, to sum leaves faster than the tree library does.

    A library that walks 6,000 trees for one record waits for memory at each of them. Here all trees take one step at a
    time in a few numpy calls, on arrays that are a tenth as large: 0.3 ms instead of 3. Rows must have no NaN.
    """

    roots: Int[np.ndarray, "t"]
    """The first node of each tree."""
    first: Int[np.ndarray, "k"]
    """The first tree of each model."""
    depth: int
    """Of the deepest tree."""
    left: Int[np.ndarray, "n"]
    """Left child, counted from the root; the right one is the next. A leaf is its own."""
    column: Int[np.ndarray, "n"]
    """What is compared; one more than there are for a leaf."""
    value: Float[np.ndarray, "n"]
    """A record whose number is smaller goes left; of a leaf, what it adds."""

    @classmethod
    def of_xgboost(cls, booster: Any) -> Self | None:
        """The nodes of a booster with a class for each model.

        None where trees split by categories, or number their nodes otherwise.
        """
        learner = json.loads(booster.save_raw("json"))["learner"]
        columns = int(learner["learner_model_param"]["num_feature"])
        ensemble = learner["gradient_booster"]["model"]
        models = np.array(ensemble["tree_info"])
        trees: list[dict[str, Any]] = [ensemble["trees"][i] for i in np.argsort(models, kind="stable")]
        if any(any(tree["split_type"]) for tree in trees):
            return None
        left = [np.array(tree["left_children"]) for tree in trees]
        right = [np.where(one < 0, -1, one + 1) for one in left]
        if any((np.array(tree["right_children"]) != one).any() for tree, one in zip(trees, right, strict=True)):
            return None
        sizes = np.array([len(one) for one in left])
        split = zip(left, trees, strict=True)
        column = np.concatenate([np.where(one < 0, columns, tree["split_indices"]) for one, tree in split])
        own = [np.where(one < 0, np.arange(len(one)), one) for one in left]
        return cls(
            roots=(np.cumsum(sizes) - sizes).astype(np.int32),
            first=np.unique(np.sort(models), return_index=True)[1].astype(np.int32),
            depth=max(_depth(one) for one in left),
            left=np.concatenate(own).astype(_smallest(int(sizes.max()))),
            column=column.astype(_smallest(columns)),
            value=np.concatenate([np.array(tree["split_conditions"], dtype=np.float32) for tree in trees]),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The nodes as arrays by name; `of_arrays` makes nodes of these again."""
        return {name: np.asarray(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The nodes from the arrays that the method `arrays` returned."""
        found: dict[str, Any] = {**arrays, "depth": int(arrays["depth"])}
        return cls(**found)

    def sums(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """For each row and model, the sum of the outputs of the model's trees; rows must have no NaN."""
        points = np.column_stack([rows, np.full(len(rows), -np.inf)]).astype(np.float32)
        return np.array([self._sums(point) for point in points]).reshape(len(rows), len(self.first))

    def _sums(self, point: Float[np.ndarray, "d"]) -> Float[np.ndarray, "k"]:
        at = self.roots
        for _ in range(self.depth):
            at = self.roots + self.left.take(at) + (point.take(self.column.take(at)) >= self.value.take(at))
        return np.asarray(np.add.reduceat(self.value.take(at).astype(float), self.first))


def _depth(left: Int[np.ndarray, "n"]) -> int:
    depth, level = 0, np.zeros(1, dtype=np.int64)
    while (inner := level[left[level] >= 0]).size:
        depth, level = depth + 1, np.concatenate([left[inner], left[inner] + 1])
    return depth


def _smallest(largest: int) -> type[np.signedinteger[Any]]:
    return np.int16 if largest <= np.iinfo(np.int16).max else np.int32


Files = dict[str, bytes]
"""Contents by name."""

FEW = 8
"""Rows that many trees are asked about faster as nodes than by their library."""

CACHED = 1 << 18
"""Numbers of the widest hidden layer that are computed at a time: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What all members of a set of future models share: a manifest, the features, and how far files are trusted."""

    manifest: Manifest
    """Describes each of them, but for its digest."""
    space: FeatureSpace
    trust: Trust

    @property
    def offset(self) -> float:
        """Logit of the smallest output that counts as favourable."""
        if self.manifest.output is Output.PROBABILITY:
            return float(np.log(self.manifest.threshold) - np.log1p(-self.manifest.threshold))
        return self.manifest.threshold

    def member(self, directory: Path, path: str, content: bytes) -> BlackBox:
        """Load the black box of one member, whose file is already written to disk.

        Parameters
        ----------
        path : the file, relative to `directory`; it has the given `content`

        Raises
        ------
        ModelRefused : the file is not a model of this kind, or may not be loaded safely
        ModelUnusable : a library that loads it is missing
        """
        artifact = self.manifest.file.model_copy(update={"path": path, "sha256": sha256(content).hexdigest()})
        manifest = self.manifest.model_copy(update={"artifact": artifact})
        return ADAPTERS[artifact.format].load(manifest, directory, self.space, self.trust)


class Stack(Protocol):
    """One way to pack future models of one kind (members) into common files, and to score them together."""

    def pack(self, kind: Kind, members: Sequence[bytes]) -> Files | None:
        """The files that hold all members together, by name; None where this stack cannot hold these members."""

    def open(self, kind: Kind, directory: Path, files: Mapping[str, bytes]) -> ScoreAll:
        """A function from model inputs (n, d) to the scores (n, k) by all members.

        Parameters
        ----------
        files : the contents of the files that `pack` returned, by name; they lie in `directory`
        """


def scores_of(logits: Float[np.ndarray, "n k"], offset: float) -> Float[np.ndarray, "n k"]:
    """Scores from logits: each logit minus `offset`, clipped to +-`LOGIT_LIMIT`; NaN for a logit that is not finite."""
    scores = np.clip(logits - offset, -LOGIT_LIMIT, LOGIT_LIMIT)
    if not np.isfinite(scores).all() or not np.isfinite(logits).all():
        scores[~np.isfinite(logits)] = np.nan
    return scores


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


class LinearStack:
    """Packs linear models into one matrix of weights and one vector of intercepts."""

    def pack(self, kind: Kind, members: Sequence[bytes]) -> Files | None:
        """One file with the weights and intercepts of all members.

        None if some member outputs a probability by another link than the logit.
        """
        read = [read_weights(kind.manifest, content, kind.space) for content in members]
        if kind.manifest.output is Output.PROBABILITY and any(file.link != "logit" for _, _, file in read):
            return None
        weights = np.array([w for w, _, _ in read])
        return {"linear.npz": _npz(weights=weights, intercepts=np.array([c for _, c, _ in read]))}

    def open(self, kind: Kind, directory: Path, files: Mapping[str, bytes]) -> ScoreAll:  # noqa: ARG002
        """A function from encoded points (n, d) to the scores (n, k) by all members."""
        arrays = _arrays(files["linear.npz"])
        weights, intercepts, offset = arrays["weights"].T.copy(), arrays["intercepts"], kind.offset
        return lambda X: scores_of(X @ weights + intercepts, offset)


class EstimatorStack:
    """Packs linear classifiers of scikit-learn, behind whatever they were fitted with, into one matrix of weights."""

    def pack(self, kind: Kind, members: Sequence[bytes]) -> Files | None:
        """One file with the weights of all members; None if one is not linear over the features of a raw record."""
        from app.registry.adapters.sklearn_linear import weights_of
        from app.registry.adapters.sklearn_model import read_content

        found = []
        for content in members:
            estimator = read_content(kind.manifest.file.path, content, kind.trust)
            weights = weights_of(estimator, kind.manifest, kind.space)
            if weights is None:
                return None
            found.append(weights)
        return {"estimators.npz": _npz(weights=np.array(found))}

    def open(self, kind: Kind, directory: Path, files: Mapping[str, bytes]) -> ScoreAll:  # noqa: ARG002
        """A function from raw rows (n, p) to the scores (n, k) by all members."""
        from app.registry.adapters.sklearn_linear import Design

        weights, offset, design = _arrays(files["estimators.npz"])["weights"].T.copy(), kind.offset, Design(kind.space)
        return lambda rows: scores_of(design.of(rows) @ weights[:-1] + weights[-1], offset)


class NetworkStack:
    """Packs networks of one architecture; in the array of each layer, the first axis runs over the networks."""

    def pack(self, kind: Kind, members: Sequence[bytes]) -> Files | None:
        """One file with the weights and biases of each layer, stacked over the members."""
        networks = [read_network(kind.manifest, content, kind.space) for content in members]
        count = len(networks[0].layers)
        arrays = {}
        for i in range(count):
            arrays[f"weights{i}"] = np.stack([network.layers[i][0] for network in networks])
            arrays[f"biases{i}"] = np.stack([network.layers[i][1] for network in networks])
        return {"network.npz": _npz(**arrays)}

    def open(self, kind: Kind, directory: Path, files: Mapping[str, bytes]) -> ScoreAll:  # noqa: ARG002
        """A function from encoded points (n, d) to the scores (n, k) by all members."""
        arrays = _arrays(files["network.npz"])
        architecture = kind.manifest.file.architecture
        assert architecture is not None
        layers = [(arrays[f"weights{i}"], arrays[f"biases{i}"]) for i in range(len(arrays) // 2)]
        network, offset = StackedNetwork(layers, architecture.activation), kind.offset
        return lambda X: scores_of(network.logits(X), offset)


class StackedNetwork:
    """Networks of one architecture that are all asked about the same points.

    Parameters
    ----------
    layers : of each layer, weights (k, inputs, outputs) and biases (k, outputs) of k networks; the last layer has one
        output, the favourable logit
    """

    def __init__(self, layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: Activation) -> None:
        first, biases = layers[0]
        self.count, self.inputs, self.width = first.shape
        self.dtype = first.dtype
        # All networks see the same points: their first layers are one product.
        self.first = np.ascontiguousarray(first.transpose(1, 0, 2).reshape(self.inputs, -1))
        self.first_biases = biases.reshape(-1)
        self.rest = [(weights, biases[:, None, :]) for weights, biases in layers[1:]]
        self.activate = ACTIVATIONS[activation][0]
        self.rows = max(16, CACHED // (self.count * max(weights.shape[2] for weights, _ in layers)))

    def logits(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Favourable logit of each encoded point by each network; not finite where sums overflow."""
        points = np.asarray(X, dtype=self.dtype)
        found = np.empty((len(points), self.count))
        with np.errstate(over="ignore", invalid="ignore"):
            for at in range(0, len(points), self.rows):
                found[at : at + self.rows] = self._block(points[at : at + self.rows])
        return found

    def _block(self, points: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b k"]:
        H = points @ self.first
        H += self.first_biases
        if not self.rest:
            return H
        H = self.activate(H).reshape(len(points), self.count, self.width).transpose(1, 0, 2)
        for weights, biases in self.rest[:-1]:
            H = H @ weights
            H += biases
            H = self.activate(H)
        weights, biases = self.rest[-1]
        return np.asarray(((H @ weights)[:, :, 0] + biases[:, :, 0]).T)


class XgboostStack:
    """Packs XGBoost models into one ensemble with a class for each model."""

    def pack(self, kind: Kind, members: Sequence[bytes]) -> Files | None:
        """The files of one ensemble of all members; None for a single member, or if members take different columns."""
        from app.registry.adapters.xgboost_model import merged, read_trees

        read = [read_trees(content, kind.manifest, kind.space) for content in members]
        taken = _common([one for _, _, one in read])
        if taken is None:
            return None
        booster, base = merged([(learner, trees) for learner, trees, _ in read])
        nodes = Nodes.of_xgboost(booster)
        walked = {} if nodes is None else {"nodes.npz": _npz(**nodes.arrays())}
        return {"trees.ubj": bytes(booster.save_raw("ubj")), "base.npz": _npz(base=base, **taken.arrays()), **walked}

    def open(self, kind: Kind, directory: Path, files: Mapping[str, bytes]) -> ScoreAll:  # noqa: ARG002
        """A function from model inputs (n, d) to the scores (n, k) by all members."""
        with library("xgboost"):
            import xgboost
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(files["trees.ubj"]))
        arrays = _arrays(files["base.npz"])
        base, taken = arrays["base"], TreeInput.of_arrays(arrays, kind.space.d)
        sign, offset = 1.0 if kind.manifest.favourable else -1.0, kind.offset

        ask = booster.inplace_predict
        # Rehearsals before there was such a file have none.
        nodes = Nodes.of_arrays(_arrays(files["nodes.npz"])) if "nodes.npz" in files else None

        def margins(X: np.ndarray) -> np.ndarray:
            rows = taken.matrix(X)
            if nodes is not None and len(rows) <= FEW and not np.isnan(rows).any():
                return nodes.sums(rows)
            return np.asarray(ask(rows, predict_type="margin", validate_features=False), dtype=float)

        return _answering(lambda X: scores_of(sign * (margins(X) + base), offset), len(base))


class LightgbmStack:
    """Packs LightGBM models into one ensemble with a class for each model."""

    def pack(self, kind: Kind, members: Sequence[bytes]) -> Files | None:
        """The files of one ensemble of all members; None for a single member, or if members take different columns."""
        from app.registry.adapters.lightgbm_model import merged, read_trees

        read = [read_trees(content, kind.manifest, kind.space) for content in members]
        taken = _common([one for _, _, one in read])
        if taken is None:
            return None
        slopes = np.array([slope for _, slope, _ in read])
        text = merged([file for file, _, _ in read], taken.count)
        return {"trees.txt": text, "slopes.npz": _npz(slopes=slopes, **taken.arrays())}

    def open(self, kind: Kind, directory: Path, files: Mapping[str, bytes]) -> ScoreAll:  # noqa: ARG002
        """A function from model inputs (n, d) to the scores (n, k) by all members."""
        with library("lightgbm"):
            import lightgbm
        booster = lightgbm.Booster(model_str=files["trees.txt"].decode())
        arrays = _arrays(files["slopes.npz"])
        taken = TreeInput.of_arrays(arrays, kind.space.d)
        slopes = arrays["slopes"] * (1.0 if kind.manifest.favourable else -1.0)
        offset = kind.offset

        def score(X: np.ndarray) -> np.ndarray:
            return scores_of(slopes * booster.predict(taken.matrix(X), raw_score=True, num_threads=1), offset)

        return _answering(score, len(slopes))


def _common(inputs: Sequence[TreeInput]) -> TreeInput | None:
    """What the members of an ensemble with a class for each take; None where it differs, or there is one member."""
    return inputs[0] if len(inputs) > 1 and all(one.same(inputs[0]) for one in inputs) else None


class Apart:
    """Keeps each future model in a file of its own, and asks one model after the other."""

    def pack(self, kind: Kind, members: Sequence[bytes]) -> Files | None:
        """The unchanged file of each member, named by the member's number."""
        suffix = PurePosixPath(kind.manifest.file.path).suffix
        return {f"{i:04d}{suffix}": content for i, content in enumerate(members)}

    def open(self, kind: Kind, directory: Path, files: Mapping[str, bytes]) -> ScoreAll:
        """A function from model inputs (n, d) to the scores (n, k) by all members, asked one after the other."""
        members = [kind.member(directory, name, files[name]) for name in sorted(files)]
        return _answering(lambda rows: np.column_stack([_scores(member, rows) for member in members]), len(members))


def _scores(member: BlackBox, rows: np.ndarray) -> Float[np.ndarray, "n"]:
    try:
        return member.score_of(np.asarray(member.predict(rows), dtype=float))
    except ModelOutputInvalid:
        return np.full(len(rows), np.nan)


def _answering(score: Callable[[np.ndarray], Any], count: int) -> ScoreAll:
    """The same function, which need not be able to answer about no rows."""
    return lambda rows: np.asarray(score(rows)) if len(rows) else np.zeros((0, count))


STACKS: dict[str, Stack] = {
    "linear": LinearStack(),
    "network": NetworkStack(),
    "xgboost": XgboostStack(),
    "lightgbm": LightgbmStack(),
    "estimator": EstimatorStack(),
    "apart": Apart(),
}
"""By the name that is kept with the files."""

OF_FORMAT = {
    Format.LINEAR: "linear",
    Format.TORCH: "network",
    Format.XGBOOST: "xgboost",
    Format.LIGHTGBM: "lightgbm",
    Format.SKLEARN: "estimator",
}
"""The stack of each format; `apart` for the others."""


def pack(kind: Kind, members: Sequence[bytes]) -> tuple[str, Files]:
    """Pack the members into the common files of a stack.

    Returns
    -------
    The name of the stack, and its files.
    """
    points = kind.manifest.output is Output.POINTS
    name = "apart" if points else OF_FORMAT.get(kind.manifest.artifact.format, "apart")
    files = STACKS[name].pack(kind, members)
    if files is None:
        name = "apart"
        files = STACKS[name].pack(kind, members)
    assert files is not None
    return name, files
