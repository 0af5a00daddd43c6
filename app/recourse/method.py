"""A recourse method: a frozen record with one pure function.

`app.recourse.method_run` samples the boundary within the budget of model calls and asks the method for candidates; only
`app.recourse.verification` asks the black box about them. So unproven and proven are different types: `Candidates`
and `RecourseResult`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import Fault
from app.recourse.candidates import Candidates, PlanCandidates
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import FeatureSpace
from app.recourse.input_part import InputPart
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.boundary import BoundarySample


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodParams(InputPart):
    """Base of the parameters of a method; their limits and docstrings become the request schema."""

    def other_models(self) -> Mapping[str, str]:
        """Names of other registered models that the method asks, by JSON pointer to the field that has the name."""
        return {}


class Yields(StrEnum):
    """The kind of answer that a method returns."""

    COUNTERFACTUAL = "counterfactual"
    PLAN = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodContext:
    """What is ready before a method is called: the boundary sample, the factual's score, neighbours, parameters."""

    sample: BoundarySample
    factual_score: float
    """Of the black box; negative."""
    neighbours: Float[np.ndarray, "k d"]
    """Accepted reference records moved to what the person can reach, encoded, nearest first."""
    certificate: CertificateParams
    """Of the request, or the defaults; chooses the moments of retrained models."""
    meter: Meter
    """For methods that ask the black box themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One recourse method: its name, its parameters, the function that proposes, and what it promises."""

    name: str
    params: type[MethodParams]
    yields: Yields
    generate: Callable[[RecourseProblem, Any, MethodContext], Candidates | PlanCandidates]
    promise: Callable[[RecourseProblem, Any, Meter], Candidates] | None = None
    """For the case that there is no local model: candidates without proposals that measure the promise of any answer.
    None for methods that promise only the model's acceptance."""
    faults: Callable[[FeatureSpace, Any], Sequence[Fault]] = lambda space, params: ()  # noqa: ARG005
    """Faults of parameters for a model with these features; pointers into the parameters."""
    weighs_costs: Callable[[Any], bool] = lambda params: True  # noqa: ARG005
    """Whether cost weights affect the search with these parameters; where they do not, the answer to a request with
    weights has a warning."""
    knobs: Mapping[str, int] = field(default_factory=dict)
    """Parameters that trade cost for robustness: 1 where a larger value is more robust, -1 where a smaller one is."""
    takes_long: bool = False
    """Whether an answer takes many times as long as with most methods."""
    summary: str
    """One sentence: what it promises."""
    reference: str
    """Where it was published."""
