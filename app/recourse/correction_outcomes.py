"""Outcomes of the correction of one member of a plan."""

from enum import StrEnum


class MemberOutcome(StrEnum):
    """Outcome of the correction of one member of a plan."""

    CORRECTED = "corrected"
    MET = "met"
    NOT_SELECTED = "not_selected"
    INFEASIBLE = "infeasible"
    REFUSED = "refused"
    NO_GAIN = "no_gain"
    UNDECIDED = "undecided"


OUTCOMES: dict[MemberOutcome, str] = {
    MemberOutcome.CORRECTED: "The record was corrected.",
    MemberOutcome.MET: "The record already meets the requirement.",
    MemberOutcome.NOT_SELECTED: "Other members are more at risk; this record was not changed.",
    MemberOutcome.INFEASIBLE: "No legal record within the limits of the correction meets its aim.",
    MemberOutcome.REFUSED: "The model refuses every corrected record that was tried; this record was not changed.",
    MemberOutcome.NO_GAIN: "The correction would not raise the validity of the plan; this record was not changed.",
    MemberOutcome.UNDECIDED: "There was not enough time to show that a correction helps; this record was not changed.",
}
"""The public sentence of each outcome."""
