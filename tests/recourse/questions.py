"""Random schemas, applicants and constraints, small enough to shrink to something that a person can read.

Numbers are multiples of 1/8: exact in binary, and either on a decimal lattice or clearly off it.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.constraints import Bounds, Constraints, Direction
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.timing import Timing
from app.recourse.features import Advice, Change, Feature, FeatureSpace, FeatureType, MaxChange, Takes
from app.recourse.models.linear import LinearModel
from tests.recourse import oracle

PROPERTY = settings()
"""The profile of this run; all of them are registered in the root `conftest.py`."""


def examples(most: int) -> int:
    """How many examples a property is tried on: in the profile `all` the most, in others a fifth of them."""
    return most if settings.get_current_profile_name() == "all" else max(10, most // 5)


CHECKED_AT_RANDOM = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
"""For modules that draw schemas: the checker of annotations looks at one element of a sequence, chosen at random."""

SCALES = st.sampled_from([0.5, 1.0, 3.0, 10.0])


def eighths(low: float, high: float) -> st.SearchStrategy[float]:
    """Multiples of 1/8."""
    return st.integers(round(8 * low), round(8 * high)).map(lambda k: k / 8)


@st.composite
def features(draw: st.DrawFn, name: str, *, bounded: bool = False) -> Feature:
    """A feature of any type, with scales; numbers lie between -10 and 10 or have no limit there."""
    drawn = draw(_features(name, bounded=bounded))
    if drawn.max_change and drawn.least_change and drawn.least_change > (drawn.max_change.absolute or 0.0):
        drawn = replace(drawn, least_change=None)
    if draw(st.integers(0, 9)) < 9:
        return drawn
    # What is never advice has no limits of it.
    return replace(drawn, protected=True, advice=Advice(), takes=Takes(), max_change=None, least_change=None)


@st.composite
def _features(draw: st.DrawFn, name: str, *, bounded: bool) -> Feature:
    type_ = draw(st.sampled_from(list(FeatureType)))
    common = {"name": name, "type": type_, "cost": draw(st.sampled_from([0.5, 1.0, 2.0]))}
    takes = Takes(months=draw(MONTHS)) if draw(RARELY) else Takes()
    if type_ is FeatureType.CATEGORICAL:
        change = draw(st.sampled_from([Change.ANY, Change.ANY, Change.NONE]))
        words = _words(draw(st.integers(2, 4)))
        return Feature(**common, categories=words, change=change, takes=takes, advice=draw(_advised(words)))
    change = draw(st.sampled_from([Change.ANY, Change.ANY, *Change]))
    common |= {"change": change, "center": draw(eighths(-3, 3)), "scale": draw(SCALES)}
    if type_ is FeatureType.ORDINAL:
        words, takes = _words(draw(st.integers(2, 4))), replace(takes, months_per_level=draw(MONTHS))
        return Feature(**common, categories=words, takes=takes, advice=draw(_advised(words)))
    if type_ is FeatureType.BINARY:
        return Feature(**common, categories=draw(st.sampled_from([(), ("no", "yes")])))
    whole = type_ is FeatureType.INTEGER
    number = st.integers(-10, 10).map(float) if whole else eighths(-10, 10)
    low, high = sorted(draw(st.lists(number, min_size=2, max_size=2, unique=True)))
    advised = sorted(draw(st.lists(eighths(low, high), min_size=2, max_size=2)))
    return Feature(
        **common,
        advice=Advice(min=draw(st.sampled_from([None, advised[0]])), max=draw(st.sampled_from([None, advised[1]])))
        if draw(RARELY)
        else Advice(),
        max_change=draw(MAX_CHANGES) if draw(RARELY) else None,
        least_change=draw(eighths(0.125, 3)) if draw(RARELY) else None,
        takes=replace(takes, months_per_unit=draw(MONTHS)),
        min=low if bounded or draw(st.booleans()) else None,
        max=high if bounded or draw(st.booleans()) else None,
        step=draw(st.sampled_from([None, 1.0, 2.0, 3.0])) if whole else None,
        decimals=None if whole else draw(st.sampled_from([None, None, 0, 1, 2])),
    )


RARELY = st.sampled_from([False, False, False, True])
MONTHS = st.sampled_from([0.0, 0.0, 0.5, 2.0])
MAX_CHANGES = st.builds(MaxChange, relative=st.sampled_from([0.25, 0.5]), absolute=eighths(0.125, 8)) | st.builds(
    MaxChange, absolute=eighths(0.125, 8)
)


def _advised(words: tuple[str, ...]) -> st.SearchStrategy[Advice]:
    """Mostly all categories."""
    some = st.lists(st.sampled_from(words), min_size=1, unique=True).map(tuple)
    return st.builds(Advice, categories=st.none() | st.none() | some)


def _words(count: int) -> tuple[str, ...]:
    return tuple("abcd"[:count])


@st.composite
def spaces(draw: st.DrawFn, *, max_size: int = 4, bounded: bool = False) -> FeatureSpace:
    """A schema of up to `max_size` features `f0`, `f1`, ..."""
    count = draw(st.integers(1, max_size))
    return FeatureSpace([draw(features(f"f{j}", bounded=bounded)) for j in range(count)])


def numbers(feature: Feature) -> st.SearchStrategy[float]:
    """Legal raw numbers of a feature, on its lattice or off it."""
    low, high = feature.range_raw
    if not feature.is_number:
        return st.integers(0, int(high)).map(float)
    low, high = max(low, -12.0), min(high, 12.0)
    return st.integers(int(low), int(high)).map(float) if feature.type is FeatureType.INTEGER else eighths(low, high)


@st.composite
def rows(draw: st.DrawFn, space: FeatureSpace) -> Float[np.ndarray, "p"]:
    """A legal raw row."""
    return np.array([draw(numbers(feature)) for feature in space.features])


@st.composite
def constraints(draw: st.DrawFn, space: FeatureSpace) -> Constraints:
    """Constraints that only tighten what the schema allows."""
    some = st.sampled_from([False, False, False, True])
    direction: dict[str, Direction] = {}
    bounds: dict[str, Bounds] = {}
    for feature in space.features:
        if feature.is_group:
            continue
        if not feature.is_fixed and draw(some):
            ways = [d for d in Direction if feature.change in (Change.ANY, d.value)]
            direction[feature.name] = draw(st.sampled_from(ways))
        if draw(some):
            bounds[feature.name] = draw(_bounds(feature))
    in_raw = [feature.name for feature in space.features if feature.is_number]
    return Constraints(
        immutable=tuple(name for name in space.names if draw(some)),
        direction=direction,
        bounds=bounds,
        max_change={name: draw(MAX_CHANGES) for name in in_raw if draw(some)},
        least_change={name: draw(eighths(0, 3)) for name in in_raw if draw(some)},
        max_changes=draw(st.sampled_from([None, None, 1, 2, 3])),
    )


@st.composite
def _bounds(draw: st.DrawFn, feature: Feature) -> Bounds:
    ends: list[float] = sorted(draw(st.lists(numbers(feature), min_size=2, max_size=2)))
    low, high = ends if feature.is_number else [feature.levels[int(end)] for end in ends]
    keep = draw(st.sampled_from(["min", "max", "both"]))
    return Bounds(min=None if keep == "max" else low, max=None if keep == "min" else high)


@st.composite
def rules(draw: st.DrawFn, space: FeatureSpace) -> tuple[LinearRule, ...]:
    """No rule, or one over the numbers of the schema."""
    numeric = [j for j, feature in enumerate(space.features) if feature.is_number]
    if not numeric or draw(st.booleans()):
        return ()
    coefficients = [draw(st.sampled_from([-1.0, 0.0, 1.0, 2.0])) if j in numeric else 0.0 for j in range(space.p)]
    return (LinearRule("a rule", tuple(coefficients), draw(eighths(-10, 10)), equality=draw(st.booleans())),)


TIMINGS = st.just(oracle.FOREVER) | st.builds(
    Timing, horizon_months=st.sampled_from([0.25, 1.0, 4.0]), sequential=st.booleans()
)


@dataclass(frozen=True)
class Question:
    """One applicant under one linear model."""

    space: FeatureSpace
    factual_raw: Float[np.ndarray, "p"]
    constraints: Constraints
    rules: tuple[LinearRule, ...]
    model: LinearModel
    timing: Timing = oracle.FOREVER

    @property
    def action_set(self) -> ActionSet:
        return action_set(
            self.space, self.factual_raw, constraints=self.constraints, rules=self.rules, timing=self.timing
        )


@st.composite
def questions(draw: st.DrawFn, *, with_rules: bool = False, bounded: bool = False) -> Question:
    """An applicant whom a linear model refuses or accepts."""
    space = draw(spaces(bounded=bounded))
    weights = st.sampled_from([0.0, *(sign * size / 4 for sign in (-1, 1) for size in range(1, 13))])
    w = np.array([draw(weights) for _ in range(space.d)])
    return Question(
        space=space,
        factual_raw=draw(rows(space)),
        constraints=draw(constraints(space)),
        rules=draw(rules(space)) if with_rules else (),
        model=LinearModel(w, draw(eighths(-6, 2))),
        timing=draw(TIMINGS),
    )


@st.composite
def ruled_questions(draw: st.DrawFn, *, max_size: int = 5, bounded: bool = False) -> Question:
    """An applicant with one to three rules between numbers, most of which their own record keeps."""
    space = draw(spaces(max_size=max_size, bounded=bounded).filter(lambda s: any(f.is_number for f in s.features)))
    factual_raw, found = draw(rows(space)), list[LinearRule]()
    numeric = [j for j, feature in enumerate(space.features) if feature.is_number]
    for _ in range(draw(st.integers(1, 3))):
        steep = [draw(st.sampled_from([-1.0, 0.0, 1.0, 2.0])) if j in numeric else 0.0 for j in range(space.p)]
        equality = draw(st.integers(0, 3)) == 0
        kept = float(np.dot(steep, factual_raw)) + (0.0 if equality else draw(eighths(0, 4)))
        limit = kept if draw(st.integers(0, 9)) else draw(eighths(-10, 10))
        found.append(LinearRule("a rule", tuple(steep), limit, equality=equality))
    return Question(
        space=space,
        factual_raw=factual_raw,
        constraints=Constraints(max_changes=draw(st.sampled_from([None, None, 1, 2, 3]))),
        rules=tuple(found),
        model=LinearModel(np.array([draw(st.integers(-12, 12)) / 4 for _ in range(space.d)]), draw(eighths(-6, 2))),
    )


def without(question: Question, constraint: str, name: str | None) -> Question:
    """The same question without one constraint."""
    c = question.constraints
    if constraint == "horizon_months":
        return replace(question, timing=replace(question.timing, horizon_months=None))
    if constraint == "max_changes":
        return replace(question, constraints=replace(c, max_changes=None))
    if constraint == "immutable":
        return replace(question, constraints=replace(c, immutable=tuple(one for one in c.immutable if one != name)))
    kept = {key: value for key, value in getattr(c, constraint).items() if key != name}
    return replace(question, constraints=replace(c, **{constraint: kept}))
