"""What a person rules out beyond the constraints, what they will do in any case, and whether both fit a model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from app.errors import Fault, InvalidRequest
from app.recourse.actions.constraints import Constraints, unknown_feature
from app.recourse.features import Feature, FeatureSpace
from app.recourse.input_part import InputPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTo(InputPart):
    """A change of one feature to one value."""

    feature: str
    """Name of the feature."""
    to: float | str | bool
    """The value, as in a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclude(InputPart):
    """What no answer proposes."""

    features: tuple[str, ...] = ()
    """Features that do not change."""
    changes: tuple[ChangeTo, ...] = ()
    """Changes that are not proposed: of a category this one; of a number or an ordinal feature this value, and all
    beyond it as seen from the applicant's own."""
    sets: tuple[tuple[str, ...], ...] = ()
    """Sets of features; no answer changes all features of one of them."""


Wanted: TypeAlias = str | ChangeTo
"""A feature that changes, or the value that it changes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes(InputPart):
    """What no answer proposes, and what every answer includes."""

    exclude: Exclude = field(default_factory=Exclude)
    """What is not proposed."""
    must_include: tuple[Wanted, ...] = ()
    """What the applicant will do anyway: features, by name or with the value that they change to."""

    def __bool__(self) -> bool:
        return bool(self.must_include or self.exclude.features or self.exclude.changes or self.exclude.sets)

    def included(self) -> Iterator[tuple[str, float | str | bool | None]]:
        """Pairs: the name of each feature that must change, and the value it must change to; None for any change."""
        for one in self.must_include:
            yield (one, None) if isinstance(one, str) else (one.feature, one.to)

    def barred(self, space: FeatureSpace) -> tuple[tuple[int, ...], ...]:
        """The excluded sets of features, as tuples of column indices: no answer changes all features of one set."""
        columns = [[space.index(name) for name in names] for names in self.exclude.sets]
        return tuple(tuple(sorted({j for j in one if j is not None})) for one in columns if None not in one)

    def included_raw(self, space: FeatureSpace) -> Mapping[int, float | None]:
        """By index of each feature that must change, the raw number it must change to; None for any change."""
        found: dict[int, float | None] = {}
        for name, to in self.included():
            j = space.index(name)
            if j is not None:
                found[j] = None if to is None else space.features[j].parse(to)
        return found


def check_wishes(space: FeatureSpace, wishes: Wishes, constraints: Constraints) -> None:
    """Check that wishes fit a model, the constraints and each other, whoever the applicant is.

    Raises
    ------
    InvalidRequest : the wishes do not fit; the error has every fault, with pointers into ``/exclude`` and
        ``/must_include``
    """
    faults = [*_exclude_faults(space, wishes.exclude), *_include_faults(space, wishes, constraints)]
    if faults:
        raise InvalidRequest(faults=faults)


def _exclude_faults(space: FeatureSpace, exclude: Exclude) -> Iterator[Fault]:
    for i, name in enumerate(exclude.features):
        if space.index(name) is None:
            yield unknown_feature(space, name, f"/exclude/features/{i}")
    for i, change in enumerate(exclude.changes):
        yield from _change_faults(space, change, f"/exclude/changes/{i}")
    for i, names in enumerate(exclude.sets):
        if not names:
            yield Fault(f"/exclude/sets/{i}", "must name at least one feature")
        for k, name in enumerate(names):
            if space.index(name) is None:
                yield unknown_feature(space, name, f"/exclude/sets/{i}/{k}")


def _include_faults(space: FeatureSpace, wishes: Wishes, constraints: Constraints) -> Iterator[Fault]:
    names: list[str] = []
    for i, one in enumerate(wishes.must_include):
        pointer, name = f"/must_include/{i}", one if isinstance(one, str) else one.feature
        j = space.index(name)
        if isinstance(one, ChangeTo):
            yield from _change_faults(space, one, pointer)
            if one in wishes.exclude.changes:
                yield Fault(f"{pointer}/to", "is excluded as well, by exclude.changes")
            pointer += "/feature"
        elif j is None:
            yield unknown_feature(space, name, pointer)
        if name in names:
            yield Fault(pointer, "is there already")
        names.append(name)
        if name in wishes.exclude.features:
            yield Fault(pointer, "is excluded as well, by exclude.features")
        if name in constraints.immutable:
            yield Fault(pointer, "is immutable as well, by constraints.immutable")
        if j is not None and space.features[j].is_fixed:
            yield Fault(pointer, "cannot change at all in this model")
    for k, together in enumerate(wishes.exclude.sets):
        if together and set(together) <= set(names):
            yield Fault("/must_include", f"has all features that exclude.sets[{k}] excludes together")
    if constraints.max_changes is not None and len(set(names)) > constraints.max_changes:
        yield Fault("/must_include", "has more features than constraints.max_changes allows to change")


def _change_faults(space: FeatureSpace, change: ChangeTo, pointer: str) -> Iterator[Fault]:
    j = space.index(change.feature)
    if j is None:
        yield unknown_feature(space, change.feature, f"{pointer}/feature")
        return
    try:
        space.features[j].parse(change.to)
    except ValueError as error:
        yield Fault(f"{pointer}/to", str(error))


def excluded_values(feature: Feature, fact: float, exclude: Exclude) -> list[float]:
    """The raw numbers that `exclude.changes` rules out for one feature.

    The person's own value `fact`, missing values and special codes are left out.
    """
    values = [feature.parse(one.to) for one in exclude.changes if one.feature == feature.name]
    return [value for value in values if value != fact and value not in feature.states_raw]
