"""What a method proposes before the black box is asked: for one counterfactual, or for a plan."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.reports import MethodReport, SurrogateReport
from app.recourse.verdict import Relaxation

HAIR = 1e-6
"""Share of the extra margin's unit by which a proposal exceeds its constraint, in case rounding fails the one on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """A method's proposals for one counterfactual; the black box has not been asked about any."""

    propose: Callable[[Float[np.ndarray, "k"]], Float[np.ndarray, "m p"]]
    """For each extra margin >= 0, increasing, the best legal raw row that exceeds the method's own constraint by it;
    ends before the first extra margin that no legal row reaches."""
    meets: Callable[[Float[np.ndarray, "n p"]], Bool[np.ndarray, "n"]]
    """Which raw rows satisfy the method's own constraint without an extra margin, as far as the method can know."""
    rank: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]
    """How favourable the method expects raw rows to be; only the order counts."""
    extra_margin_unit: float
    """An extra margin that makes a difference, in units of the method's own constraint."""
    is_optimal: bool = True
    """Whether the row without an extra margin is optimal if the black box accepts it."""
    takes_any: bool = False
    """Whether the method asks for nothing but the black box's acceptance, so that any cheaper record is better."""
    yields_to_model: bool = False
    """Whether a change that hardly raises the model's own score may be left out, though the method's own constraint
    then is missed: where that is about an estimate of the model, and the request sets none of its knobs."""
    proves_infeasible: bool = True
    """Whether no proposal, even without an extra margin, proves that no legal row meets the method's own constraint."""
    alternatives: Callable[[], Float[np.ndarray, "n p"]] | None = None
    """Further legal raw rows for `objective` to choose from where the black box refuses the best one."""
    nearest: Callable[[], Float[np.ndarray, "n p"]] | None = None
    """Legal raw rows that come near to the method's own constraint; asked only where no row that meets it is accepted.
    None for methods without such a constraint."""
    nearness: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]] | None = None
    """How near raw rows that miss the method's own constraint come to it; larger is nearer. None for `rank`."""
    how_far: Callable[[Float[np.ndarray, "p"]], str | None] = lambda row_raw: None  # noqa: ARG005
    """A sentence for people: how far a raw row gets where it misses the method's own constraint; None where it meets
    it."""
    objective: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]] | None = None
    """What the method minimises over the rows that the black box accepts; None for the cost."""
    shortfall: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]] | None = None
    """By how much each accepted raw row, best first, misses a promise that only the black box can confirm: <= 0 where
    it is kept, NaN where it was not measured. None for methods that promise only the model's acceptance."""
    report: Callable[[Float[np.ndarray, "p"]], MethodReport | None] = lambda row_raw: None  # noqa: ARG005
    """The method's report on a raw row that it, or `shortfall`, has seen."""
    surrogate: SurrogateReport | None = None
    relax: Callable[[], Relaxation | None] = lambda: None
    """The constraint whose removal helps most; asked only where nothing is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCandidates:
    """A method's proposals for a plan of several counterfactuals; the black box has not been asked about any."""

    count: int
    """Requested number of members."""
    plan_raw: Float[np.ndarray, "j p"]
    """Different legal raw rows: the plan that the method proposes."""
    replacements: Callable[[], Float[np.ndarray, "n p"]]
    """Legal raw rows in place of members that are refused; asked once, of a local model only where some are."""
    choose: Callable[[Float[np.ndarray, "m p"]], Int[np.ndarray, "k"]]
    """The best plan of at most `count` members among rows that the black box accepts, those of `plan_raw` in it: their
    indices, in order. Members that are too much alike are left out of it."""
    rank: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]
    """How favourable the method expects raw rows to be; only the order counts."""
    relax: Callable[[], Relaxation | None]
    """The constraint whose removal helps most; asked only where nothing is found."""
