"""The correction of what is promised: in simulated worlds whose models accept a person with a known probability.

A world has people, each with a threshold, and models, each with a strictness that all its decisions share; so the
decisions of one model about different people depend on each other, as those of real models do.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from app.recourse.models.calibration import (
    FEWEST_PROMISES,
    SIGNIFICANCE,
    Calibration,
    Retraining,
    calibrate,
    rank,
)

HELD_BACK = 60


@dataclass(frozen=True)
class World:
    """`shift` makes the next versions stricter than the future models were."""

    shift: float = 0.0
    shared: float = 0.5
    """Spread of what all decisions of a model have in common."""

    def retraining(self, rng: np.random.Generator, people: int) -> Retraining:
        margins = rng.normal(1.0, 1.0, people)
        accept = self.models(rng, margins, HELD_BACK, 0.0)
        kept = self.models(rng, margins, 1, self.shift)[:, 0]
        return Retraining(promised=accept.mean(axis=1), kept=kept, rivals=accept.mean(axis=0))

    def models(self, rng: np.random.Generator, margins: np.ndarray, count: int, shift: float) -> np.ndarray:
        own = rng.normal(size=(len(margins), count)) * np.sqrt(1.0 - self.shared**2)
        return margins[:, None] - shift + own + self.shared * rng.normal(size=count) >= 0.0


def past(world: World, seed: int, retrainings: int, people: int) -> list[Retraining]:
    rng = np.random.default_rng(seed)
    return [world.retraining(rng, people) for _ in range(retrainings)]


@pytest.mark.parametrize("retrainings", [1, 4])
def test_who_keeps_the_promises_is_not_corrected(retrainings: int) -> None:
    worlds = 400
    found = [calibrate(past(World(), seed, retrainings, 200)) for seed in range(worlds)]
    corrected = sum(one is not None for one in found)
    # 60 models and one more have 61 ranks: of 400 worlds 20 are corrected by chance, 13 more once in a thousand times.
    assert corrected <= worlds * SIGNIFICANCE + 13


def test_promises_taken_for_independent_would_be_corrected_by_chance() -> None:
    """Why the rank is among models: the promises that one model checks stand and fall together."""
    worlds = [past(World(), seed, 1, 200)[0] for seed in range(200)]
    # Two standard errors of 200 independent promises.
    fewer = [
        one.promised.mean() - one.kept.mean() > 2 * np.sqrt((one.promised * (1 - one.promised)).sum()) / 200
        for one in worlds
    ]
    assert np.mean(fewer) > 0.15


def test_who_breaks_more_is_corrected_and_then_tells_the_truth() -> None:
    """Monte-Carlo coverage, over pasts and next versions: too much promised before, kept as often as promised after."""
    world, uncorrected, corrected, caught = World(shift=1.0), [], [], 0
    rng = np.random.default_rng(7)
    for seed in range(200):
        found = calibrate(past(world, seed, 5, 200))
        caught += found is not None
        after = world.retraining(rng, 400)
        lowered = [p if found is None else found.corrected(p) for p in after.promised.tolist()]
        uncorrected.append(after.kept.mean() - after.promised.mean())
        corrected.append(after.kept.mean() - np.mean(lowered))
    assert caught >= 190
    assert np.mean(uncorrected) < -0.2
    error = np.std(corrected) / np.sqrt(len(corrected))
    assert abs(np.mean(corrected)) < 3 * error + 0.01


@pytest.mark.parametrize("between", [(0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.0)])
def test_it_tells_the_truth_at_every_height(between: tuple[float, float]) -> None:
    """A shift costs those in the middle most; one number for all would be wrong at both ends."""
    world, kept, lowered, before = World(shift=1.5), [], [], []
    rng = np.random.default_rng(8)
    for seed in range(150):
        found = calibrate(past(world, seed, 5, 400))
        assert found is not None
        after = world.retraining(rng, 400)
        some = (after.promised >= between[0]) & (after.promised <= between[1])
        kept += after.kept[some].tolist()
        before += after.promised[some].tolist()
        lowered += [found.corrected(p) for p in after.promised[some].tolist()]
    assert np.mean(kept) - np.mean(lowered) > -0.04
    assert abs(np.mean(kept) - np.mean(lowered)) < abs(np.mean(kept) - np.mean(before))


def test_more_kept_than_promised_is_never_raised() -> None:
    assert calibrate(past(World(shift=-1.0), 0, 5, 300)) is None
    half = past(World(shift=1.0), 0, 5, 300)
    found = calibrate(half)
    assert found is not None
    grid = np.linspace(0.0, 1.0, 201).tolist()
    lowered = [found.corrected(p) for p in grid]
    assert all(0.0 <= after <= before for after, before in zip(lowered, grid, strict=True))
    assert lowered == sorted(lowered)
    assert list(found.told) == sorted(set(found.told))
    assert (found.promises, found.retrainings) == (1500, 5)


def test_too_few_promises_and_those_without_future_models_correct_nothing() -> None:
    broken = np.zeros(FEWEST_PROMISES, dtype=bool)
    promised = np.full(FEWEST_PROMISES, 0.95)
    rivals = np.full(HELD_BACK, 0.95)
    assert calibrate([]) is None
    assert calibrate([Retraining(promised=promised[1:], kept=broken[1:], rivals=rivals)]) is None
    assert calibrate([Retraining(promised=promised, kept=broken, rivals=np.zeros(0))]) is None
    found = calibrate([Retraining(promised=promised, kept=broken, rivals=rivals)])
    assert found is not None
    assert found.told == pytest.approx((0.95,))
    assert found.corrected(0.95) == pytest.approx(0.0)
    # Of ten held-back models, none can show by itself that the eleventh is another kind.
    assert calibrate([Retraining(promised=promised, kept=broken, rivals=rivals[:10])]) is None
    assert calibrate(2 * [Retraining(promised=promised, kept=broken, rivals=rivals[:10])]) is not None


def test_the_rank_is_the_share_of_models_that_keep_no_more() -> None:
    promised, rivals = np.full(4, 0.5), np.array([0.25, 0.5, 0.75, 1.0])
    kept = np.array([True, True, False, False])
    assert rank(Retraining(promised=promised, kept=kept, rivals=rivals)) == 3 / 5
    assert rank(Retraining(promised=promised, kept=~np.zeros(4, dtype=bool), rivals=rivals)) == 1.0
    assert rank(Retraining(promised=promised, kept=np.zeros(4, dtype=bool), rivals=rivals)) == 1 / 5


def test_it_is_linear_between_what_is_known_and_constant_beyond() -> None:
    found = Calibration(told=(0.4, 0.8), by=(0.1, 0.3), promises=50, retrainings=1)
    lowered = [found.corrected(p) for p in (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0)]
    assert lowered == pytest.approx([0.0, 0.0, 0.1, 0.3, 0.4, 0.5, 0.7])


@pytest.mark.parametrize(("told", "by"), [((0.4, 0.4), (0.1, 0.3)), ((0.8, 0.4), (0.1, 0.3)), ((0.4, 0.8), (0.1,))])
def test_shares_that_do_not_ascend_or_lack_a_correction_are_refused(
    told: tuple[float, ...], by: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match="ascending"):
        Calibration(told=told, by=by, promises=50, retrainings=1)


def test_equal_promises_are_corrected_alike() -> None:
    """Whatever the order in which they were given, as half of all people are promised 1."""
    rng = np.random.default_rng(0)
    promised = np.repeat([1.0, 0.9], [300, 100])
    kept = np.concatenate([np.arange(300) < 240, np.arange(100) < 60])
    order = rng.permutation(400)
    rivals = np.full(HELD_BACK, 0.97)
    first = calibrate([Retraining(promised=promised, kept=kept, rivals=rivals)])
    second = calibrate([Retraining(promised=promised[order], kept=kept[order], rivals=rivals)])
    assert first is not None
    assert first == second
    assert (first.corrected(1.0), first.corrected(0.9)) == pytest.approx((0.8, 0.6))
