"""What a recourse method is: a frozen record with one pure function.

A method declares what it needs; `app.recourse.solve` prepares that within the budget of model calls, asks the method
for candidates, and is alone in asking the black box about them. So unproven and proven are different types:
`Candidates` here, `RecourseResult` there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.problem import RecourseProblem
from app.recourse.result import Relaxation, SurrogateReport
from app.recourse.surrogate.boundary import BoundarySample


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodParams:
    """Parameters of a method; their limits and sentences become the request schema."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "use_attribute_docstrings": True}


class Yields(StrEnum):
    """What a method returns."""

    COUNTERFACTUAL = "counterfactual"
    PLAN = "plan"


class Need(StrEnum):
    """What `solve` prepares for a method."""

    BOUNDARY_SAMPLE = "boundary_sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Unverified proposals of a method."""

    propose: Callable[[Float[np.ndarray, "k"]], Float[np.ndarray, "m p"]]
    """For each push >= 0, increasing, the cheapest legal raw row that goes so far beyond the method's own constraint;
    it stops short at the first push that no legal row reaches."""
    meets: Callable[[Float[np.ndarray, "n p"]], Bool[np.ndarray, "n"]]
    """Which raw rows satisfy the method's own constraint (push 0)."""
    rate: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]
    """How favourable the method holds raw rows to be; only the order counts."""
    push_unit: float
    """A push that makes a difference, encoded units."""
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
    generate: Callable[[RecourseProblem, Any, BoundarySample], Candidates]
    summary: str
    """One sentence: what it promises."""
    reference: str
    """Where it was published."""
