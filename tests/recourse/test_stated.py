"""Which values of a missing feature the model accepts: both ends and just beyond, asked of the model by the test."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.actions.accepted_values import AcceptedValues
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.sentences import changes
from app.recourse.counterfactual import Counterfactual
from app.recourse.features import Feature, FeatureSpace, FeatureType, Missing
from app.recourse.models.meter import Meter
from app.recourse.stated import MOST_VALUES, with_accepted
from tests.recourse.test_solve_many import Far
from tests.recourse.toys import ask

RATIO = Feature(
    name="ratio", type=FeatureType.CONTINUOUS, label="Debt-to-income ratio", unit="%", min=0, max=100, decimals=1,
    center=30.0, scale=10.0, missing=Missing.INDICATOR, fill=0, provide=True,
)  # fmt: skip
OTHER = replace(RATIO, name="other", label="Rent ratio")
HOUSING = Feature(
    name="housing", type=FeatureType.CATEGORICAL, categories=("rented", "owned", "family"), missing=Missing.NAN,
    provide=True,
)  # fmt: skip
INCOME = Feature(
    name="income", type=FeatureType.INTEGER, min=0, max=20_000, step=50, center=2000.0, scale=1000.0, unit="EUR",
    missing=Missing.INDICATOR, fill=0, provide=True,
)  # fmt: skip


class Asked:
    """A question in raw numbers, so that a test decides what the model says."""

    def __init__(self, features: list[Feature], says: Any) -> None:
        self.space, self.says = FeatureSpace(features), says
        missing = [float(len(f.categories)) if f.is_group else f.states_raw[0] for f in self.space.features]
        rng = np.random.default_rng(0)
        rows = np.column_stack(
            [rng.integers(0, 3, 50).astype(float) if f.is_group else rng.uniform(0, 90, 50) for f in features]
        )
        self.problem, self.spy = ask(self.space, self._score, missing, rows_raw=rows)

    def _score(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        return np.where(self.accepts(self.space.decode(X)), 1.0, -1.0)

    def accepts(self, rows_raw: Float[np.ndarray, "n p"]) -> np.ndarray:
        return np.array([self.says(*np.round(row, 6)) for row in rows_raw])

    @property
    def actions(self) -> ActionSet:
        return action_set(self.space, self.problem.factual_raw)

    def told(
        self, *row: float, remote: bool = False, max_calls: int = 60
    ) -> tuple[dict[int, AcceptedValues], list[str]]:
        box = self.problem.black_box
        if remote:
            box = replace(box, remote=Far(self.spy, max_calls=max_calls))
        one = Counterfactual(row_raw=np.array(row), score=1.0, probability=None, cost=1.0, changed=())
        (found,) = with_accepted(self.actions, Meter(box), [one])
        texts = [c.text for c in changes(
            self.space.features, self.problem.factual_raw, one.row_raw, self.actions.clock, found.accepted
        )]  # fmt: skip
        return dict(found.accepted), texts


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize(
    ("says", "expected", "text"),
    [
        (lambda r: r <= 42, (None, 42.0), "if it is at most 42%"),
        (lambda r: r >= 17.3, (17.3, None), "if it is at least 17.3%"),
        (lambda r: 17.3 <= r <= 42, (17.3, 42.0), "if it is from 17.3% to 42%"),
        (lambda r: r == 33.6, (33.6, 33.6), "only if it is 33.6%"),
        (lambda r: True, (None, None), "with every value"),
    ],
)
def test_both_ends_are_accepted_and_what_is_beyond_is_not(says: Any, expected: Any, text: str, remote: bool) -> None:
    asked = Asked([RATIO], says)
    told, texts = asked.told(33.6, remote=remote)
    assert (told[0].min, told[0].max) == expected
    assert texts == [f"State the debt-to-income ratio; this way works {text}."]
    low, high = (0.0 if told[0].min is None else told[0].min), (100.0 if told[0].max is None else told[0].max)
    assert asked.accepts(np.linspace(low, high, 1_000).round(1)[:, None]).all()
    beyond = [end for end, known in ((low - 0.1, told[0].min), (high + 0.1, told[0].max)) if known is not None]
    assert not asked.accepts(np.array(beyond).reshape(-1, 1)).any()


def test_a_range_ends_where_the_model_says_no_in_between() -> None:
    told, _ = Asked([RATIO], lambda r: r <= 20 or 30 <= r <= 40).told(33.6)
    assert told[0] == AcceptedValues(min=30.0, max=40.0)


def test_the_ends_of_many_values_are_exact_to_the_unit() -> None:
    """More values than one call asks about, and records may hold numbers that no advice names."""
    asked = Asked([INCOME], lambda income: 1_237 <= income <= 15_619)
    assert MOST_VALUES < 20_000
    told, _ = asked.told(2_000.0)
    assert told[0] == AcceptedValues(min=1_237.0, max=15_619.0)


def test_levels_are_asked_one_by_one() -> None:
    told, texts = Asked([HOUSING], lambda housing: housing in (0, 2)).told(2.0)
    assert told[0] == AcceptedValues(levels=("rented", "family"))
    assert texts == ['State the housing; this way works if it is "rented" or "family".']


def test_of_two_values_every_pair_in_the_ranges_is_accepted() -> None:
    asked = Asked([RATIO, OTHER], lambda one, two: one + two <= 80)
    told, _ = asked.told(33.6, 20.0)
    first, second = told[0], told[1]
    assert (first.min, first.max, second.min) == (None, 60.0, None)
    assert second.max == 20.0
    pairs = [(one, two) for one in np.linspace(0, 60.0, 30) for two in np.linspace(0, 20.0, 30)]
    assert asked.accepts(np.array(pairs)).all()


def test_without_a_budget_the_sentence_names_the_value_that_was_asked_about() -> None:
    asked = Asked([RATIO], lambda r: r <= 42)
    told, texts = asked.told(33.6, remote=True, max_calls=0)
    assert told == {}
    assert texts == ["State the debt-to-income ratio; this answer holds for 33.6%."]
