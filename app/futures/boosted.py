"""Future boosted trees of XGBoost and LightGBM, with the parameters of today's.

LightGBM's text states its parameters. XGBoost's JSON states none of a tree, but it has sums of the training, from
which they follow: the weight of a node before shrinkage is ``w = -G / (H + lambda)``, and gradients ``G`` and
Hessians ``H`` of two children add up to their parent's. For each inner node p with children c,

    lambda (w_p - sum w_c) = sum w_c H_c - w_p H_p,

where the file has ``eta w`` in place of ``w`` for leaves: linear equations in lambda, 1 / eta and lambda / eta.

Trees that split by categories (``input: raw``) are trained on codes, and their files name the categories in the order
of the manifest, whatever the order in today's file.

Records of a bootstrap of half the records count twice, so that penalties and smallest leaves keep their part in the
whole.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from pydantic import BaseModel, ValidationError

from app.errors import RehearsalFailed
from app.futures.recipe import Encoded, RecipeOfOneManifest, Tuned, in_columns
from app.futures.records import Records, Sample
from app.recourse.features import RawValue
from app.registry.adapters.artifact import read_artifact
from app.registry.adapters.lightgbm_categories import PANDAS
from app.registry.adapters.optional_import import library
from app.registry.adapters.tree_input import code_text
from app.registry.adapters.ubjson import is_ubjson
from app.registry.adapters.ubjson import parse as parse_ubjson
from app.registry.manifest import Manifest
from app.registry.version import LoadedModel

USUAL: Tuned = {"eta": 0.1, "max_depth": 4, "rounds": 100}
"""Parameters of trees that stand in for a model of another kind."""

THREADS = 1
"""Of the training of a model: it takes a fraction of a second, and threads that wait for each other beside other work
have taken six times as long."""

IDLE = 0.1
"""Share of leaves that could have been split, beyond which the smallest gain of a split is one that was asked for."""

CROWDED = (1.1, 0.01)
"""Leaves with up to so many times the smallest sum of Hessians are at a bound, where they have more than this share."""

STATED = frozenset({
    "boosting", "learning_rate", "num_leaves", "max_depth", "min_data_in_leaf", "min_sum_hessian_in_leaf",
    "bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction", "bagging_freq", "feature_fraction",
    "feature_fraction_bynode", "extra_trees", "max_delta_step", "lambda_l1", "lambda_l2", "min_gain_to_split",
    "drop_rate", "max_drop", "skip_drop", "xgboost_dart_mode", "uniform_drop", "top_rate", "other_rate",
    "data_sample_strategy", "path_smooth", "max_bin", "min_data_in_bin", "is_unbalance", "scale_pos_weight",
    "sigmoid", "boost_from_average", "zero_as_missing", "use_missing", "max_cat_to_onehot", "max_cat_threshold",
    "cat_l2", "cat_smooth", "min_data_per_group",
})  # fmt: skip
"""Parameters that are taken over from the text of a LightGBM model."""

SWITCHES = frozenset(
    {
        "extra_trees",
        "xgboost_dart_mode",
        "uniform_drop",
        "is_unbalance",
        "boost_from_average",
        "zero_as_missing",
        "use_missing",
    }
)
"""Parameters that the text states as 0 or 1, and that are given as words."""

_PARAMETER = re.compile(r"^\[([a-z_0-9]+): ([^\]]*)\]$", re.MULTILINE)


class _XgboostTree(BaseModel):
    """What a tree says of its training."""

    left_children: list[int]
    right_children: list[int]
    base_weights: list[float]
    sum_hessian: list[float]
    loss_changes: list[float]


class _BoostedRecipe(RecipeOfOneManifest):
    """What the recipes of boosted trees share.

    Parameters
    ----------
    stand_in : parameters where the model is of another kind, whose file has none that could be read
    """

    block = 1

    def __init__(self, model: LoadedModel, manifest: Manifest, *, stand_in: Tuned | None = None) -> None:
        super().__init__(model, manifest)
        self.stand_in = stand_in

    def category_names(self, columns: Iterable[int]) -> dict[int, list[RawValue]]:
        """For each categorical column among `columns`, by its index, the levels that its codes 0, 1, ... stand for."""
        features = self.model.registered.columns.model.features
        return {
            j: [level for level in features[j].levels if level is not None]
            for j in columns
            if not features[j].is_number
        }


class XgboostRecipe(_BoostedRecipe):
    """Trains boosted trees with XGBoost."""

    name = "xgboost"

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:  # noqa: ARG002
        """Find the training parameters, under XGBoost's names.

        They are those of today's model, or of the trees that stand in for a model of another kind.
        """
        with library("xgboost"):
            import xgboost  # noqa: F401
        if self.stand_in is not None:
            return dict(self.stand_in)
        registered = self.model.registered
        return xgboost_parameters(read_artifact(registered.manifest, registered.directory))

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:
        """Train one model for each sample; returns model files as XGBoost's `save_model("model.json")` writes them."""
        with library("xgboost"):
            import xgboost
        data = in_columns(self.model, records, self.described)
        rounds, split = tuned["rounds"], tuned.get("categorical", [])
        stated = {key: value for key, value in tuned.items() if key not in ("rounds", "categorical")}
        kinds = ["c" if j in split else "q" for j in range(data.X.shape[1])] if split else None
        found = []
        for sample in samples:
            rows, counts = np.unique(sample.chosen, return_counts=True)
            weights = counts * (len(data.y) / len(sample.chosen))
            matrix = xgboost.DMatrix(
                data.X[rows], data.y[rows], weight=weights, nthread=THREADS, feature_types=kinds,
                enable_categorical=bool(split),
            )  # fmt: skip
            options = {"objective": "binary:logistic", "nthread": THREADS, "seed": sample.seed, **stated}
            try:
                booster = xgboost.train(options, matrix, num_boost_round=rounds)
            except xgboost.core.XGBoostError as error:
                reason = str(error).splitlines()[0]
                raise RehearsalFailed(f"XGBoost cannot be trained as the model was: {reason}") from error
            found.append(self._named(bytes(booster.save_raw("json")), split))
        return found

    def _named(self, content: bytes, split: Sequence[int]) -> bytes:
        """The file with the names of the categories that its codes stand for."""
        if not split:
            return content
        names = self.category_names(split)
        texts = [[code_text(level).encode() for level in names.get(j, ())] for j in range(max(split) + 1)]
        encoded = [
            {"offsets": np.cumsum([0, *map(len, part)]).tolist() if part else [], "values": list(b"".join(part))}
            for part in texts
        ]
        document = json.loads(content)
        document["learner"]["gradient_booster"]["model"]["cats"] = {
            "enc": encoded, "feature_segments": [], "sorted_idx": [],
        }  # fmt: skip
        return json.dumps(document).encode()


def xgboost_parameters(content: bytes) -> Tuned:
    """Training parameters inferred from the file of an XGBoost model, under XGBoost's names.

    Raises
    ------
    RehearsalFailed : the file lacks the sums that training leaves in it, as where trees were written by hand
    """
    learner = (parse_ubjson(content) if is_ubjson(content) else json.loads(content))["learner"]
    booster = learner["gradient_booster"]["model"]
    parallel = int(booster["gbtree_model_param"].get("num_parallel_tree", 1))
    try:
        trees = [_XgboostTree.model_validate(tree) for tree in booster["trees"]]
        found = _tree_parameters(trees)
    except (ValidationError, IndexError) as error:
        raise RehearsalFailed("The file of the model does not say how its trees were trained.") from error
    weight = float(learner["objective"].get("reg_loss_param", {}).get("scale_pos_weight", 1.0))
    return {
        "objective": learner["objective"]["name"],
        "rounds": len(trees) // parallel,
        **found,
        **({"scale_pos_weight": weight} if weight != 1.0 else {}),
        **_category_parameters(learner, booster["trees"]),
        **({"num_parallel_tree": parallel, "subsample": 0.632} if parallel > 1 else {}),
    }


def _category_parameters(learner: Mapping[str, Any], trees: Sequence[Mapping[str, Any]]) -> Tuned:
    """The columns that are categories, and up to how many of these each is split from all others."""
    stated = [j for j, kind in enumerate(learner.get("feature_types", [])) if kind == "c"]
    split, several = set(stated), False
    for tree in trees:
        split |= {tree["split_indices"][node] for node in tree.get("categories_nodes", [])}
        several |= any(size > 1 for size in tree.get("categories_sizes", []))
    if not split:
        return {}
    return {"categorical": sorted(split), **({"max_cat_to_onehot": 1} if several else {"max_cat_to_onehot": 10_000})}


def _tree_parameters(trees: Sequence[_XgboostTree]) -> Tuned:
    equations, sides, gains, leaves, depths = [], [], [], [], []
    for tree in trees:
        left, right = np.array(tree.left_children), np.array(tree.right_children)
        depth = _depths(left, right)
        w, h, gain = np.array(tree.base_weights), np.array(tree.sum_hessian), np.array(tree.loss_changes)
        inner, leaf = np.flatnonzero((left >= 0) & (depth >= 0)), left < 0
        children = np.stack([left[inner], right[inner]])

        def total(values: Float[np.ndarray, "k"], of: np.ndarray, children: np.ndarray = children) -> np.ndarray:
            return np.asarray(np.where(of[children], values[children], 0.0).sum(axis=0))

        equations.append(np.column_stack([w[inner] - total(w, ~leaf), -total(w * h, leaf), -total(w, leaf)]))
        sides.append(total(w * h, ~leaf) - w[inner] * h[inner])
        gains.append(gain[inner])
        ends = np.flatnonzero(leaf & (depth >= 0))
        leaves.append(h[ends])
        depths.append(depth[ends])
    A, b = np.concatenate(equations), np.concatenate(sides)
    sizes = np.linalg.norm(A, axis=0)
    if len(b) < A.shape[1] or not sizes.all():
        raise RehearsalFailed("The trees of the model have too few splits to say how they were trained.")
    ridge, inverse_eta, _ = np.linalg.lstsq(A / sizes, b, rcond=None)[0] / sizes
    if not inverse_eta > 0.0:
        raise RehearsalFailed("The file of the model does not say how its trees were trained.")
    hessians, depth = np.concatenate(leaves), np.concatenate(depths)
    smallest, deepest = float(hessians.min()), int(depth.max())
    # Leaves crowd at a bound that binds; at one that does not, the usual one does as well.
    crowded = float((hessians < CROWDED[0] * smallest).mean()) > CROWDED[1]
    least_hessian = 0.0 if smallest < 1.0 else float(np.floor(smallest)) if crowded else 1.0
    idle = float(((depth < deepest) & (hessians > 2.0 * smallest)).mean())
    least_gain = float(np.concatenate(gains).min())
    return {
        "eta": float(f"{min(1.0, 1.0 / inverse_eta):.4g}"),
        "lambda": float(f"{max(0.0, ridge):.3g}") if ridge > 1e-3 else 0.0,
        "max_depth": deepest,
        "min_child_weight": least_hessian,
        "gamma": float(f"{least_gain:.3g}") if idle > IDLE and least_gain > 0.0 else 0.0,
    }


def _depths(left: Int[np.ndarray, "k"], right: Int[np.ndarray, "k"]) -> Int[np.ndarray, "k"]:
    """Depth of each node, -1 for those that the root does not lead to."""
    depth = np.full(len(left), -1)
    level, at = np.zeros(1, dtype=np.int64), 0
    while level.size and at <= len(left):
        depth[level] = at
        inner = level[left[level] >= 0]
        level, at = np.concatenate([left[inner], right[inner]]), at + 1
    return depth


class LightgbmRecipe(_BoostedRecipe):
    """Trains boosted trees with LightGBM."""

    name = "lightgbm"

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:  # noqa: ARG002
        """Find the training parameters, under LightGBM's names.

        They are those of today's model, or of the trees that stand in for a model of another kind.
        """
        with library("lightgbm"):
            import lightgbm  # noqa: F401
        if self.stand_in is not None:
            return {"rounds": self.stand_in["rounds"], "learning_rate": self.stand_in["eta"], "num_leaves": 15}
        registered = self.model.registered
        return lightgbm_parameters(read_artifact(registered.manifest, registered.directory).decode())

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:
        """Train one model for each sample; returns model files as LightGBM's `save_model` writes them."""
        data = in_columns(self.model, records, self.described)
        return [self._trained(data, sample, tuned) for sample in samples]

    def _trained(self, data: Encoded, sample: Sample, tuned: Tuned) -> bytes:
        with library("lightgbm"):
            import lightgbm
        share = len(sample.chosen) / len(data.y)
        split = tuned.get("categorical", [])
        options = {key: value for key, value in tuned.items() if key not in ("rounds", "categorical")}
        # The only parameter that counts records instead of their weights.
        options["min_data_in_leaf"] = max(1, round(share * int(tuned.get("min_data_in_leaf", 20))))
        options |= {"objective": "binary", "verbosity": -1, "num_threads": THREADS, "seed": sample.seed}
        weights = np.full(len(sample.chosen), 1.0 / share)
        rows = data.X[sample.chosen]
        dataset = lightgbm.Dataset(rows, data.y[sample.chosen].astype(float), weight=weights, params={"verbosity": -1},
                                   categorical_feature=split or "auto")  # fmt: skip
        try:
            text: str = lightgbm.train(options, dataset, num_boost_round=tuned["rounds"]).model_to_string()
        except lightgbm.basic.LightGBMError as error:
            raise RehearsalFailed(f"LightGBM cannot be trained with the parameters of the model: {error}") from error
        names = self.category_names(range(data.X.shape[1])) if split else {}
        listed = json.dumps([[code_text(level) for level in levels] for levels in names.values()])
        return f"{text}\n{PANDAS}{listed}\n".encode() if split else text.encode()


def lightgbm_parameters(text: str) -> Tuned:
    """Training parameters of a LightGBM model, from its text: those stated there, or else what its trees show."""
    head, _, tail = text.partition("\nend of trees")
    rounds = head.count("\nTree=")
    stated: dict[str, Any] = {key: _value(key, value) for key, value in _PARAMETER.findall(tail) if key in STATED}
    if not stated:
        leaves = [int(count) for count in re.findall(r"^num_leaves=(\d+)$", head, re.MULTILINE)]
        shrinkage = re.findall(r"^shrinkage=([0-9.eE+-]+)$", head, re.MULTILINE)
        stated = {"num_leaves": max(2, *leaves, 2), "learning_rate": float(shrinkage[-1]) if shrinkage else 0.1}
        if not 0.0 < stated["learning_rate"] < 1.0:
            stated["learning_rate"] = USUAL["eta"]
    infos = re.search(r"^feature_infos=(.*)$", head, re.MULTILINE)
    split = [j for j, info in enumerate(infos[1].split() if infos else ()) if info[0] not in "[n"]
    return {"rounds": rounds, **stated, **({"categorical": split} if split else {})}


def _value(key: str, text: str) -> Any:
    if key in SWITCHES:
        return text in ("1", "true")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
