"""Parameters with which XGBoost trains trees as an ensemble of scikit-learn, or in a pipeline of it, does."""

import math
from typing import Any

from app.registry.adapters.sklearn_columns import in_two

LEAF_WEIGHT = 0.2
"""Sum of Hessians of one record in a leaf: 0.25 where both outcomes are as likely, less elsewhere."""

IN_A_BOOTSTRAP = 0.632
"""Share of different records in a sample with replacement."""


OF_XGBOOST = {
    "max_depth": "max_depth", "max_leaves": "max_leaves", "grow_policy": "grow_policy", "max_bin": "max_bin",
    "min_child_weight": "min_child_weight", "gamma": "gamma", "subsample": "subsample", "tree_method": "tree_method",
    "colsample_bytree": "colsample_bytree", "colsample_bylevel": "colsample_bylevel", "base_score": "base_score",
    "colsample_bynode": "colsample_bynode", "max_delta_step": "max_delta_step", "learning_rate": "eta",
    "reg_lambda": "lambda", "reg_alpha": "alpha",
}  # fmt: skip
"""Parameters of XGBClassifier, and XGBoost's names for them."""

WEIGHING = ("scale_pos_weight", "class_weight", "is_unbalance")
"""Parameters that give one outcome more weight; twins have none."""


def twin_of(estimator: Any) -> dict[str, Any] | None:
    """The parameters of an ensemble of trees, under XGBoost's names; None of another estimator.

    A forest of one round has no penalty and starts at even odds, so that its margin is linear in the mean of the
    leaves' shares, as the probability of scikit-learn's forest is.
    """
    _, last = in_two(estimator)
    kind, own = type(last).__name__, last.get_params() if hasattr(last, "get_params") else {}
    if any(own.get(name) not in (None, False, 1, 1.0) for name in WEIGHING) and not _of_sklearn(last):
        return None
    if kind == "XGBClassifier" and own["booster"] in (None, "gbtree") and own["num_parallel_tree"] in (None, 1):
        stated = {name: own[key] for key, name in OF_XGBOOST.items() if own[key] is not None}
        # Stopped early, it decides with its best rounds.
        return {**stated, "rounds": getattr(last, "best_iteration", last.get_num_boosting_rounds() - 1) + 1}
    if kind == "LGBMClassifier" and own["boosting_type"] == "gbdt":
        return {
            "rounds": last.best_iteration_ or last.n_estimators_, "eta": own["learning_rate"],
            "max_leaves": own["num_leaves"], "max_depth": max(own["max_depth"], 0), "grow_policy": "lossguide",
            "min_child_weight": max(LEAF_WEIGHT * own["min_child_samples"], own["min_child_weight"]),
            "lambda": own["reg_lambda"], "alpha": own["reg_alpha"], "colsample_bytree": own["colsample_bytree"],
            "subsample": own["subsample"] if own["subsample_freq"] else 1.0,
        }  # fmt: skip
    if not _of_sklearn(last):
        return None
    deepest = {"max_depth": own.get("max_depth") or 0, "min_child_weight": LEAF_WEIGHT * _leaf(own)}
    if kind in ("RandomForestClassifier", "ExtraTreesClassifier"):
        return {
            **deepest, "rounds": 1, "num_parallel_tree": own["n_estimators"], "eta": 1.0, "lambda": 0.0,
            "base_score": 0.5, "subsample": IN_A_BOOTSTRAP if own["bootstrap"] else 1.0,
            "colsample_bynode": _share(own["max_features"], last.n_features_in_),
        }  # fmt: skip
    if kind == "GradientBoostingClassifier":
        return {
            **deepest, "rounds": len(last.estimators_), "eta": own["learning_rate"], "lambda": 0.0,
            "subsample": own["subsample"], "colsample_bynode": _share(own["max_features"], last.n_features_in_),
        }  # fmt: skip
    if kind == "HistGradientBoostingClassifier":
        leaves = own["max_leaf_nodes"] or 0
        return {
            **deepest, "rounds": last.n_iter_, "eta": own["learning_rate"], "lambda": own["l2_regularization"],
            "max_leaves": leaves, "grow_policy": "lossguide",
        }  # fmt: skip
    return None


def _of_sklearn(estimator: Any) -> bool:
    return type(estimator).__module__.startswith("sklearn.")


def _leaf(own: dict[str, Any]) -> float:
    """Fewest records of a leaf, where they are a number."""
    least = own.get("min_samples_leaf", 1)
    return float(least) if isinstance(least, int) else 1.0


def _share(most: Any, columns: int) -> float:
    """The share of the columns that each split tries."""
    tried = {"sqrt": math.sqrt(columns), "log2": math.log2(max(columns, 2))}.get(most, most)
    if tried is None:
        return 1.0
    return min(1.0, float(tried) if isinstance(tried, float) and most not in ("sqrt", "log2") else tried / columns)
