"""The letter to an applicant: the decision, its reasons, the ways to a yes, and what is promised."""

from app.notice.given import lender_of, missing_reasons, notice_about
from app.notice.letter import Facts, Lender, Notice, notice_of, version_of
from app.notice.markup import policy
from app.notice.regime import Templates, preferred

__all__ = [
    "Facts",
    "Lender",
    "Notice",
    "Templates",
    "lender_of",
    "missing_reasons",
    "notice_about",
    "notice_of",
    "policy",
    "preferred",
    "version_of",
]
