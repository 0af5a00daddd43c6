"""A scikit-learn estimator or pipeline: `.skops`, or `.joblib` and `.pkl` if the operator trusts them.

skops builds objects of known types only; `ALLOWED` extends its list. Some objects are used by compiled code without
checks; `app.registry.adapters.estimator_parts` checks them first, and `estimator_members` makes new boosters.

With ``input: raw``, the estimator receives a DataFrame with the manifest's names: numbers unchanged (integers as
int64), categories as text, or as numbers where its encoders know them as such, a binary without categories as bool.
With ``input: encoded``, it receives an array in the order of the encoded columns, with its own column names if it was
fitted on named columns.
"""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from inspect import isfunction
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from app.errors import Fault, ModelOutputInvalid, ModelRefused
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox, Input, Predict
from app.recourse.models.score import Output
from app.recourse.models.tree_boxes import single_precision_edge
from app.registry.adapters.artifact import UNREADABLE, black_box_of, read_artifact, refused, unreadable
from app.registry.adapters.column_names import (
    chosen_columns,
    code_column,
    notes_on_dropped,
    raw_column,
    raw_names,
)
from app.registry.adapters.encoders import columns_of_codes, dropped, missing_marks
from app.registry.adapters.estimator_parts import (
    memory_faults,
    parts_of,
    single_thread,
    types_of_members,
    with_boosters,
    without_boosters,
)
from app.registry.adapters.optional_import import library
from app.registry.adapters.sklearn_trees import forest_of
from app.registry.adapters.trees import Tree, with_boxes
from app.registry.artifact import SKOPS
from app.registry.manifest import Manifest
from app.registry.printable import listed
from app.registry.trust import Trust

ALLOWED = (
    "functools.partial",
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
)
"""Types and functions allowed in a skops file beyond skops' own list; none of them runs code of the file. (The function
of a `partial` must be in these lists as well.)"""

SCORERS = (
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)
"""Types of the scorer of a threshold that was searched for, and of its parts."""

ESTIMATOR_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""Exceptions of an estimator for records that it cannot score."""

Table: TypeAlias = Callable[[np.ndarray], Any]
"""Maps the input of the black box to that of the estimator."""


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:
    """The black box of an estimator or pipeline of scikit-learn.

    Raises `ModelRefused` where the file is unsafe or does not fit the manifest; `ModelUnusable` without scikit-learn.
    """
    estimator = read_content(manifest.file.path, read_artifact(manifest, directory), trust)
    parts = list(parts_of(estimator))
    raw = manifest.input is Input.RAW
    chosen, other = (None, _table_faults(estimator, manifest, space)) if raw else _chosen(estimator, manifest, space)
    faults = [*_method_faults(estimator, manifest), *other]
    if not manifest.file.runs_code:  # a trusted file may run any code anyway
        faults += memory_faults(parts)
    if faults:
        raise ModelRefused(faults=faults)
    single_thread(parts)
    for note in notes_on_dropped(chosen, space, manifest.file.map):
        warnings.warn(note, stacklevel=2)
    try:
        table = input_table(estimator, manifest, space)
    except ESTIMATOR_ERRORS as error:  # a skops file may hold steps with other members than scikit-learn gives them
        raise unreadable(error) from error
    predict = _predict(estimator, manifest, table)
    black_box = black_box_of(manifest, space, predict, rowwise=_has_trees_only(estimator))
    if manifest.input is Input.ENCODED and _is_tree(estimator):
        edges = partial(single_precision_edge, strict=False)
        return with_boxes(black_box, _tree(estimator), edges, chosen)
    if manifest.output in (Output.PROBABILITY, Output.LOGIT):
        column = estimator.classes_.tolist().index(manifest.favourable)
        forest = forest_of(estimator, table, column, numbers_of(manifest, space), names_of(estimator) or ())
        return replace(black_box, forest=forest)
    return black_box


def read_content(path: str, content: bytes, trust: Trust) -> Any:
    """The object that a file contains, unexamined.

    The file is read as skops if `path` ends in `.skops`, else as a pickle. Raises `ModelRefused` where the file cannot
    be read, or holds types that are not allowed.
    """
    return _read_skops(content) if path.endswith(SKOPS) else _read_pickle(content, trust)


# --- from the file ---------------------------------------------------------------------------------------------------


def _read_skops(content: bytes) -> Any:
    with library("sklearn"):
        import sklearn  # noqa: F401
        import skops.io
    allowed = [*ALLOWED, *types_of_members(), *_metrics()]
    try:
        held = without_boosters(content)
        untrusted = sorted(set(skops.io.get_untrusted_types(data=held)) - set(allowed))
        if not untrusted:
            found = skops.io.loads(held, trusted=allowed)
            with_boosters(list(parts_of(found)))
            return found
    except UNREADABLE as error:
        raise unreadable(error) from error
    raise refused(f"holds types that are not allowed: {', '.join(untrusted)}{_way_out(untrusted)}")


def _way_out(untrusted: Sequence[str]) -> str:
    """What to do with a file that holds such types of scikit-learn; of others, an attack perhaps, nothing."""
    if any(name.startswith("sklearn.neighbors.") for name in untrusted):
        return '; fit the neighbours with algorithm="brute", which decides alike and keeps no index'
    if all(name.startswith("sklearn.") for name in untrusted):
        return "; export the model as ONNX, or save it with joblib and pass --trust-pickle if you trust its source"
    return ""


def _metrics() -> list[str]:
    """What a search or a threshold was scored by: pure functions, and objects that hold one. No prediction calls it."""
    from sklearn import metrics

    functions = [getattr(metrics, name) for name in metrics.__all__]
    scorers = [type(metrics.get_scorer(name)) for name in metrics.get_scorer_names()]
    found = [one for one in functions if isfunction(one)] + scorers
    return [*{f"{one.__module__}.{one.__qualname__}" for one in found}, *SCORERS]


def _read_pickle(content: bytes, trust: Trust) -> Any:
    if not trust.pickle:
        detail = "can run any code when it is read; save it with skops, or pass --trust-pickle if you trust its source"
        raise refused(detail, "/path")
    with library("sklearn"):
        import joblib
        import sklearn  # noqa: F401
    try:
        # The digest of `content` matches the manifest: the operator trusts these bytes. Reads plain pickles too.
        return joblib.load(BytesIO(content))
    except UNREADABLE as error:
        raise unreadable(error) from error


# --- what kind it is -------------------------------------------------------------------------------------------------


def _is_tree(estimator: Any) -> bool:
    """Whether the estimator is one decision tree and nothing else."""
    from sklearn.tree import DecisionTreeClassifier

    # A subclass may decide differently from its tree. scikit-learn refuses numbers beyond single precision, so it
    # cannot score a box behind such a threshold; training creates none.
    largest = np.finfo(np.float32).max
    return type(estimator) is DecisionTreeClassifier and bool((np.abs(estimator.tree_.threshold) < largest).all())


def _has_trees_only(estimator: Any) -> bool:
    """Whether each row is scored independently, without a matrix product."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    return type(estimator) in (DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)


def _tree(estimator: Any) -> Tree:
    nodes = estimator.tree_
    indices = (nodes.feature, nodes.children_left, nodes.children_right)
    feature, left, right = (index.astype(np.int64) for index in indices)
    return Tree(feature=feature, number=nodes.threshold, left=left, right=right)


# --- does it fit the manifest ----------------------------------------------------------------------------------------

_METHODS = {
    Output.PROBABILITY: "predict_proba",
    Output.LOGIT: "decision_function",
    Output.MARGIN: "decision_function",
    Output.LABEL: "predict",
    Output.POINTS: "predict",
}


def _method_faults(estimator: Any, manifest: Manifest) -> list[Fault]:
    faults: list[Fault] = []
    method = _METHODS[manifest.output]
    if not hasattr(estimator, method):
        remedy = "; say output: label" if manifest.output is not Output.LABEL and hasattr(estimator, "classes_") else ""
        detail = f"needs {method}, which this {type(estimator).__name__} does not have{remedy}"
        faults.append(Fault("/output", detail))
    if manifest.output is Output.POINTS:
        if hasattr(estimator, "classes_"):
            faults.append(Fault("/output", "must be probability, logit or label: the estimator is a classifier"))
        return faults
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        return [*faults, Fault("/artifact", f"is not a fitted classifier but {type(estimator).__name__}")]
    known = classes.tolist()
    if manifest.favourable not in known:
        faults.append(
            Fault("/favourable", f"must be one of the classes of the estimator: {', '.join(map(json.dumps, known))}")
        )
    if manifest.output in (Output.LOGIT, Output.MARGIN) and len(known) != 2:
        faults.append(Fault("/output", f"must be probability or label for a model of {len(known)} classes"))
    return faults


def _chosen(estimator: Any, manifest: Manifest, space: FeatureSpace) -> tuple[np.ndarray | None, list[Fault]]:
    """The encoded columns that an estimator takes, as `chosen_columns` has them."""
    names = names_of(estimator)
    count = int(getattr(estimator, "n_features_in_", space.d))
    return chosen_columns(names, count, space, manifest.file.map)


def names_of(estimator: Any) -> list[str] | None:
    """The names of the columns that an estimator was fitted on; None for an array."""
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    return names if names and names != [f"Column_{j}" for j in range(len(names))] else None


def numbers_of(manifest: Manifest, space: FeatureSpace) -> set[str]:
    """The columns of a raw table that are numbers, by the estimator's own names."""
    names = raw_names(manifest.file.map, space) if manifest.input is Input.RAW else ()
    return {name for name, feature in zip(names, space.features, strict=False) if feature.is_number}


def _table_faults(estimator: Any, manifest: Manifest, space: FeatureSpace) -> list[Fault]:
    """Faults of an estimator that was fitted on another table than that of the manifest's features."""
    fitted, own = names_of(estimator), raw_names(manifest.file.map, space)
    if fitted is None:
        detail = "raw needs an estimator that was fitted on a DataFrame; this one does not know its columns"
        return [Fault("/input", detail)]
    lost = [name for name in fitted if name not in own and name not in dropped(estimator, fitted)]
    extra = f"is not a column on which the estimator was fitted; these are {listed(fitted)}"
    return [Fault("/features", f'lack "{name}", on which the estimator was fitted') for name in lost] + [
        Fault(f"/features/{j}", f'"{name}" {extra}') for j, name in enumerate(own) if name not in fitted
    ]


# --- asking it -------------------------------------------------------------------------------------------------------


def _predict(estimator: Any, manifest: Manifest, table: Table) -> Predict:
    """The output for the favourable class; empty for no records, which scikit-learn would refuse.

    Raises `ModelOutputInvalid` if the estimator raises.
    """
    column = 1
    if manifest.output is not Output.POINTS:
        column = estimator.classes_.tolist().index(manifest.favourable)
    sign = 1.0 if column == 1 else -1.0

    def of(found: Any) -> Any:
        if manifest.output is Output.PROBABILITY:
            return found[:, column]
        if manifest.output is Output.LABEL:
            return found == manifest.favourable
        if manifest.output is Output.POINTS:
            return found[:, 0] if np.shape(found)[1:] == (1,) else found
        return sign * np.asarray(found)

    def answer(rows: np.ndarray) -> Float[np.ndarray, "n"]:
        if not len(rows):
            return np.zeros(0)
        try:
            with np.errstate(all="ignore"):  # too large numbers end in an error or a non-finite output
                return np.asarray(of(getattr(estimator, _METHODS[manifest.output])(table(rows))), dtype=float)
        except ESTIMATOR_ERRORS as error:
            # Its message may repeat the records.
            raise ModelOutputInvalid(f"the estimator raised {type(error).__name__} for these records") from error

    return answer


def input_table(estimator: Any, manifest: Manifest, space: FeatureSpace) -> Table:
    """The function that converts encoded points or raw rows to the array or DataFrame that the estimator takes."""
    names = names_of(estimator)
    if manifest.input is Input.ENCODED:
        return _matrix(names, _chosen(estimator, manifest, space)[0])
    if names is None:
        return lambda rows: rows
    with library("sklearn"):
        import pandas as pd
    own = raw_names(manifest.file.map, space)
    codes, marks = columns_of_codes(estimator, names), missing_marks(estimator, names)

    def marked(values: Table, mark: str | None) -> Table:
        """A function like `values`, with `mark` in place of each missing level; pandas would write NaN there."""

        def column(numbers: np.ndarray) -> Any:
            found = values(numbers).astype(object)
            return pd.Series([mark if level is None or level != level else level for level in found], dtype=object)

        return column

    columns = [
        (name, own.index(name), (code_column if name in codes else raw_column)(space.features[own.index(name)]))
        if name in own
        else (name, 0, lambda numbers: np.full(len(numbers), np.nan))  # the estimator leaves it out
        for name in names
    ]
    columns = [
        (name, j, marked(values, marks[name]) if name in marks and not space.features[j].is_number else values)
        for name, j, values in columns
    ]
    return lambda rows_raw: pd.DataFrame({name: values(rows_raw[:, j]) for name, j, values in columns}, copy=False)


def _matrix(names: Any, indices: np.ndarray | None) -> Table:
    """The columns of a matrix that an estimator takes, with their names if it has some."""
    take: Table = (lambda X: X) if indices is None else (lambda X: X[:, indices])
    if names is None:
        return take
    with library("sklearn"):
        import pandas as pd
    return lambda X: pd.DataFrame(take(X), columns=names, copy=False)
