"""Derived columns: features that follow from others, by a formula or by a table over levels.

They may follow from each other, but not in a circle. A value is missing where one of those that it follows from is
missing or a special code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields

import numpy as np
from jaxtyping import Bool, Float

from app.errors import Fault
from app.recourse.features.arithmetic import Sloped, Slopes
from app.recourse.features.expression import Chain, Expression, Extreme, Lookup, Negative, Number, parse_expression
from app.recourse.features.feature import Feature, FeatureType
from app.recourse.features.feature_options import MISSING, Table

NOT_WITH_DERIVED = (
    "action", "step", "change", "cost", "noise", "provide", "provide_cost", "special", "advice", "takes",
    "moves_with_time", "max_change", "least_change",
)  # fmt: skip
"""Keys of a feature that describe changes or codes of its own, which a derived feature has not."""


class DerivedColumns:
    """The derived features of a schema, computed from its other features.

    Parameters
    ----------
    features : all features of the schema, in any order

    Raises
    ------
    ValueError : `derived_faults` finds faults in the features
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        if faults := derived_faults(features):
            raise ValueError("; ".join(f"{fault.pointer} {fault.detail}" for fault in faults))
        known = {feature.name: feature for feature in features}
        formulas = {feature.name: _formula(feature, known) for feature in features if feature.derived is not None}
        self.formulas = {name: formulas[name] for name in _order(formulas)[0]}
        """By name, each after those that it needs."""
        self.base = tuple(feature.name for feature in features if feature.derived is None)
        """Names of the other features."""
        self._known = known

    def values(self, base: Mapping[str, Float[np.ndarray, "n"]]) -> dict[str, Float[np.ndarray, "n"]]:
        """The values of all derived features, by name.

        Parameters
        ----------
        base : by name, raw numbers of the features that are not derived; a level is its index

        Returns
        -------
        The exact values of the formulas; infinite or NaN where they divide by zero, `MISSING` where an input is missing
            or a special code.
        """
        columns, missing = self._inputs(base)
        for name, formula in self.formulas.items():
            unknown = np.logical_or.reduce([missing[one] for one in formula.names])
            value = formula.evaluate(columns)
            missing[name] = unknown | (value == MISSING)
            columns[name] = np.where(missing[name], 0.0, value)
        return {name: np.where(missing[name], MISSING, columns[name]) for name in self.formulas}

    def slopes(self, base: Mapping[str, Float[np.ndarray, "n"]]) -> dict[str, dict[str, Float[np.ndarray, "n"]]]:
        """Partial derivatives of each derived feature by the features that are not derived.

        Parameters
        ----------
        base : by name, raw numbers of the features that are not derived; a level is its index

        Returns
        -------
        For each derived feature, by name, a dict of its derivatives by the names of features that are not derived.
            Features with levels have no entry. Derivatives are 0 where the value of the derived feature is missing.
        """
        columns, _ = self._inputs(base)
        missing = {name: value == MISSING for name, value in self.values(base).items()}
        known = {name: Sloped(column, {name: np.ones(len(column))}) for name, column in columns.items()}
        with np.errstate(all="ignore"):
            for name, formula in self.formulas.items():
                known[name] = formula.over(Slopes(known))
        return {
            name: {of: np.where(missing[name], 0.0, slope) for of, slope in known[name].slopes.items()}
            for name in self.formulas
        }

    def _inputs(
        self, base: Mapping[str, Float[np.ndarray, "n"]]
    ) -> tuple[dict[str, Float[np.ndarray, "n"]], dict[str, Bool[np.ndarray, "n"]]]:
        """Columns with 0 in place of values that are missing, and where these are."""
        missing = {name: np.isin(base[name], self._known[name].states_raw) for name in self.base}
        return {name: np.where(missing[name], 0.0, base[name]) for name in self.base}, missing


def derived_faults(features: Sequence[Feature]) -> list[Fault]:
    """The faults of the derived features of a schema; each has the pointer ``/features/{index}/derived``."""
    known = {feature.name: feature for feature in features}
    formulas: dict[str, Expression] = {}
    found: dict[str, list[str]] = {feature.name: [] for feature in features if feature.derived is not None}
    for feature in features:
        if feature.derived is None:
            continue
        found[feature.name] += _own_faults(feature)
        try:
            formulas[feature.name] = _formula(feature, known)
        except ValueError as error:
            found[feature.name].append(str(error))
    order, circles = _order(formulas)
    for circle in circles:
        found[circle[0]].append("goes in a circle: " + " from ".join((*circle, circle[0])))
    may_be_missing = {feature.name for feature in features if feature.missing or feature.special}
    for name in order:
        unknown = [one for one in formulas[name].names if one in may_be_missing]
        if unknown and not known[name].missing:
            text = "is missing where {} is missing or a special code: say with missing how the model sees that"
            found[name].append(text.format(unknown[0]))
            may_be_missing.add(name)
    return [
        Fault(f"/features/{j}/derived", text)
        for j, feature in enumerate(features)
        if feature.derived is not None
        for text in found[feature.name]
    ]


def _own_faults(feature: Feature) -> list[str]:
    """The faults of a derived feature, whatever its formula."""
    if not feature.is_number:
        return [f"belongs to continuous and integer features; this one is {feature.type}"]
    defaults = {
        one.name: one.default if one.default_factory is NO_DEFAULT else one.default_factory() for one in fields(Feature)
    }
    stated = [key for key in NOT_WITH_DERIVED if getattr(feature, key) != defaults[key]]
    return [f"excludes {', '.join(stated)}: a derived value only changes with those it follows from"] if stated else []


def _formula(feature: Feature, known: Mapping[str, Feature]) -> Expression:
    """The formula of a derived feature. Raises `ValueError` where it cannot be one."""
    if isinstance(feature.derived, Table):
        formula: Expression = _lookup(feature.derived, known)
    else:
        formula = parse_expression(str(feature.derived))
        for leaf in formula.mentions():
            if leaf.name not in known:
                raise ValueError(f"names {leaf.name} (column {leaf.column}), which is not a feature of this model")
            if not (other := known[leaf.name]).is_number:
                raise ValueError(
                    f"names {leaf.name} (column {leaf.column}), which is not a number but {other.type}; use a table"
                )
        if not formula.names:
            raise ValueError("depends on no feature")
    if feature.type is FeatureType.INTEGER and not _is_whole(formula, known):
        raise ValueError(
            "may give numbers that are not whole; an integer needs whole numbers and integer features without /"
        )
    return formula


def _lookup(table: Table, known: Mapping[str, Feature]) -> Lookup:
    if table.from_ not in known:
        raise ValueError(f"is a table from {table.from_}, which is not a feature of this model")
    other = known[table.from_]
    if other.is_number:
        raise ValueError(f"is a table from {other.name}, which has no levels but is {other.type}; use a formula")
    levels = [Feature.level_key(level) for level in other.levels if level is not None]
    lacking = [level for level in levels if level not in table.table]
    if lacking:
        raise ValueError(f"has a table without {', '.join(lacking)} of {other.name}")
    if unknown := [key for key in table.table if key not in levels]:
        raise ValueError(f"has a table with {', '.join(unknown)}, which {other.name} has not")
    if not all(np.isfinite(list(table.table.values()))):
        raise ValueError("has a table with a number that is not finite")
    return Lookup(
        other.name,
        tuple(MISSING if level is None else float(table.table[Feature.level_key(level)]) for level in other.levels),
    )


def _is_whole(formula: Expression, known: Mapping[str, Feature]) -> bool:
    """Whether the value is whole wherever it is not missing."""
    match formula:
        case Number(value):
            return value == int(value)
        case Lookup(_, numbers):
            return all(number == int(number) for number in numbers)
        case Negative(part):
            return _is_whole(part, known)
        case Chain(first, rest):
            return all(sign != "/" for sign, _ in rest) and all(
                _is_whole(part, known) for part in (first, *(part for _, part in rest))
            )
        case Extreme(_, parts):
            return all(_is_whole(part, known) for part in parts)
    return all(known[name].type is FeatureType.INTEGER for name in formula.names)


def _order(formulas: Mapping[str, Expression]) -> tuple[list[str], list[list[str]]]:
    """Derived features, each after those that it needs, and the circles among the rest."""
    needs = {name: {one for one in formula.names if one in formulas} for name, formula in formulas.items()}
    order: list[str] = []
    waiting = dict(needs)
    while ready := [name for name, inputs in waiting.items() if not inputs & waiting.keys()]:
        order += ready
        for name in ready:
            del waiting[name]
    circles: list[list[str]] = []
    while waiting:
        path = [next(iter(waiting))]
        while (following := next((one for one in formulas[path[-1]].names if one in waiting), None)) is not None:
            if following in path:
                circles.append(path[path.index(following) :])
                break
            path.append(following)
        for name in path:
            del waiting[name]
    return order, circles
