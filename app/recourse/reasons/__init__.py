"""The reasons for a refusal: how much each feature lowered the score, compared with reference records."""

from app.recourse.reasons.comparison import (
    Against,
    Comparison,
    Departure,
    departure,
    is_unadvised,
    reason_text,
    usual_raw,
    usual_text,
    value_text,
)
from app.recourse.reasons.explain import (
    NO_REASONS,
    Explanation,
    FoundReason,
    NoReasons,
    ReasonsParams,
    ReasonsStatus,
    explain,
)
