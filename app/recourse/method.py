"""What a recourse method is: a frozen record with one pure function.

A method declares what it needs; `app.recourse.solve` prepares that within the budget of model calls, asks the method
for candidates, and is alone in asking the black box about them. So unproven and proven are different types:
`Candidates` here, `RecourseResult` there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import Fault
from app.recourse.blackbox import Meter
from app.recourse.certificate import CertificateParams
from app.recourse.features import FeatureSpace
from app.recourse.problem import RecourseProblem
from app.recourse.result import MethodReport, Relaxation, SurrogateReport
from app.recourse.surrogate.boundary import BoundarySample

HAIR = 1e-6
"""Share of the push unit by which a proposal goes beyond its constraint, in case rounding refuses the one on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodParams:
    """Parameters of a method; their limits and sentences become the request schema."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "use_attribute_docstrings": True}

    def other_models(self) -> Mapping[str, str]:
        """Registered models that the method has to ask besides, by the pointer to their name in the request."""
        return {}


class Yields(StrEnum):
    """What a method returns."""

    COUNTERFACTUAL = "counterfactual"
    PLAN = "plan"


class Need(StrEnum):
    """What `solve` prepares for a method."""

    BOUNDARY_SAMPLE = "boundary_sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What `solve` has found out before it asks a method."""

    sample: BoundarySample
    factual_score: float
    """Of the black box; negative."""
    neighbours: Float[np.ndarray, "k d"]
    """Accepted reference records moved to what the person can reach, encoded, nearest first."""
    certificate: CertificateParams
    """Of the request, or the defaults; says where the moments of retrained models come from."""
    meter: Meter
    """For methods that ask the black box themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Unverified proposals for one counterfactual."""

    propose: Callable[[Float[np.ndarray, "k"]], Float[np.ndarray, "m p"]]
    """For each push >= 0, increasing, the best legal raw row that goes so far beyond the method's own constraint; it
    stops short at the first push that no legal row reaches."""
    meets: Callable[[Float[np.ndarray, "n p"]], Bool[np.ndarray, "n"]]
    """Which raw rows satisfy the method's own constraint (push 0), as far as that is known without the black box."""
    rate: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]
    """How favourable the method holds raw rows to be; only the order counts."""
    push_unit: float
    """A push that makes a difference."""
    exact: bool = True
    """Whether nothing better than the row of push 0 is to be had where the black box accepts that one."""
    complete: bool = True
    """Whether proposing nothing at push 0 proves that the method's own constraint cannot be met."""
    objective: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]] | None = None
    """What the method minimises over the rows that the black box accepts; None for the cost."""
    shortfall: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]] | None = None
    """By how much each accepted raw row, best first, misses a promise that only the black box can confirm: <= 0 where
    it is kept, NaN where that was not asked. None for methods that promise no more than a yes."""
    report: Callable[[Float[np.ndarray, "p"]], MethodReport | None] = lambda row_raw: None  # noqa: ARG005
    """What the method has to say about a raw row that it, or `shortfall`, has seen."""
    surrogate: SurrogateReport | None = None
    relax: Callable[[], Relaxation | None] = lambda: None
    """The constraint whose removal helps most; asked only where nothing is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCandidates:
    """Unverified proposals for a plan of several counterfactuals."""

    count: int
    """How many members are wanted."""
    rows_raw: Float[np.ndarray, "n p"]
    """Legal raw rows: the plan that the method wants, and what may take the place of members that are refused."""
    choose: Callable[[Float[np.ndarray, "m p"]], Int[np.ndarray, "k"]]
    """The best plan of at most `count` members among rows that the black box accepts: their indices, in order."""
    rate: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]
    """How favourable the method holds raw rows to be; only the order counts."""
    surrogate: SurrogateReport | None = None
    relax: Callable[[], Relaxation | None] = lambda: None
    """The constraint whose removal helps most; asked only where nothing is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One recourse method."""

    name: str
    params: type[MethodParams]
    yields: Yields
    needs: frozenset[Need]
    generate: Callable[[RecourseProblem, Any, Ground], Candidates | PlanCandidates]
    promise: Callable[[RecourseProblem, Any, Meter], Candidates] | None = None
    """Where decisions around a person determine no local model: candidates that propose nothing, but know what any
    answer has to keep. None for methods that promise no more than a yes."""
    faults: Callable[[FeatureSpace, Any], Sequence[Fault]] = lambda space, params: ()  # noqa: ARG005
    """What is wrong with parameters for a model with these features, with pointers into the request."""
    weighs_costs: bool = True
    """Whether the weights of the cost steer it; where they do not, an answer to a request that gives some says so."""
    knobs: Mapping[str, int] = field(default_factory=dict)
    """Parameters that trade cost for robustness: 1 where more of it is more robust, -1 where less is."""
    summary: str
    """One sentence: what it promises."""
    reference: str
    """Where it was published."""
