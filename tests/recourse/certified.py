"""Questions about models whose certificates can be computed by hand, and the formulas, a second time."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.meter import Meter
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.boundary import BoundarySample, SamplerParams, sample_boundary, survey
from tests.recourse.toys import Spy, ask

Points = Float[np.ndarray, "n d"]

W, C = np.array([1.0, -0.5, 0.8, 0.3]), -2.0
FACTUAL = (-1.0, 0.5, 0.0, 0.0)


def space() -> FeatureSpace:
    """Three numbers, of which the last is implemented exactly, and a switch."""
    number = Feature(name="", type=FeatureType.CONTINUOUS, min=-6.0, max=6.0, center=0.0, scale=1.0)
    exact = replace(number, name="age", noise=False)
    switch = Feature(name="guarantor", type=FeatureType.BINARY, center=0.0, scale=1.0)
    return FeatureSpace([replace(number, name="income"), replace(number, name="debt"), exact, switch])


def rows(count: int = 300) -> Points:
    rng = np.random.default_rng(7)
    return np.column_stack([rng.uniform(-5, 5, (count, 3)), rng.integers(2, size=count)]).astype(float)


def linear_score(X: Points) -> Float[np.ndarray, "n"]:
    return X @ W + C


def curved_score(X: Points) -> Float[np.ndarray, "n"]:
    return X @ W + C + 0.3 * np.sin(X[:, 0])


def curved_gradient(X: Points) -> Points:
    gradient = np.tile(W, (len(X), 1))
    gradient[:, 0] += 0.3 * np.cos(X[:, 0])
    return gradient


def linear(**changes: Any) -> tuple[RecourseProblem, Spy]:
    """A linear model that says so."""
    problem, spy = ask(space(), linear_score, FACTUAL, rows_raw=rows(), **changes)
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.tile(W, (len(X), 1)))
    return replace(problem, black_box=black_box), spy


def curved(**changes: Any) -> tuple[RecourseProblem, Spy]:
    """A smooth model that gives its gradient."""
    problem, spy = ask(space(), curved_score, FACTUAL, rows_raw=rows(), **changes)
    return replace(problem, black_box=replace(problem.black_box, gradient=curved_gradient)), spy


def silent_about_gradients(**changes: Any) -> tuple[RecourseProblem, Spy]:
    """The same smooth model without a gradient."""
    return ask(space(), curved_score, FACTUAL, rows_raw=rows(), **changes)


def labels(**changes: Any) -> tuple[RecourseProblem, Spy]:
    """A model of raw records that says yes or no and nothing else."""

    def label(rows_raw: Points) -> Float[np.ndarray, "n"]:
        return (linear_score(rows_raw) >= 0.0).astype(float)

    return ask(space(), label, FACTUAL, rows_raw=rows(), raw=True, output=Output.LABEL, **changes)


@dataclass
class Clock:
    """Time that passes only while a model is asked: one second per call."""

    now: float = 1000.0

    @classmethod
    def installed(cls, monkeypatch: pytest.MonkeyPatch) -> "Clock":
        """The clock of everything from now on: with two, a time limit would depend on how long the machine has run."""
        clock = cls()
        monkeypatch.setattr(time, "monotonic", lambda: clock.now)
        return clock

    def limit(self, question: tuple[RecourseProblem, Spy], *, calls: int) -> tuple[RecourseProblem, Spy]:
        """The question with time for so many calls to begin; the next one would come too late."""
        problem, spy = question
        predict = spy.predict

        def slow(X: Points) -> Float[np.ndarray, "n"]:
            self.now += 1.0
            return np.asarray(predict(X))

        spy.predict = slow
        return replace(problem, deadline=self.now + calls - 0.5), spy


def sample_of(problem: RecourseProblem) -> BoundarySample:
    """The sample behind the certificate."""
    meter, params = Meter(problem.black_box), SamplerParams()
    return sample_boundary(problem, meter, params, survey(problem, meter, params))


def normal_tail(z: float) -> float:
    """Chance of a standard normal number above `z`."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def gelbrich(mean: float, deviation: float, radius: float, *, bell: bool = False) -> tuple[float, float]:
    """Bounds on one unit point from mean and deviation of its score: walk around the circle of radius ``rho``.

    The inequality of Cantelli, or half of Gauss's, for each point of the boundary of the Gelbrich ball.
    """
    turns = np.linspace(0.0, 2.0 * math.pi, 100_001)
    m, s = mean + radius * np.cos(turns), np.abs(deviation + radius * np.sin(turns))
    beyond = s**2 / (m**2 + s**2)
    if bell:
        far = 3.0 * m**2 >= 4.0 * s**2
        beyond = 0.5 * np.where(
            far, 4.0 * s**2 / (9.0 * m**2 + 1e-300), 1.0 - np.abs(m) / (math.sqrt(3.0) * s + 1e-300)
        )
    yes = np.where(m > 0.0, 1.0 - beyond, 0.0)
    no = np.where(m < 0.0, 1.0 - beyond, 0.0)
    return float(yes.min()), 1.0 - float(no.min())
