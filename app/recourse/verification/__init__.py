"""Verification: the only place where the black box is asked about the records that are returned.

`Draft` is an answer in the making: the calls of the black box, its scores, the accepted records. `verify_one` and
`verify_plan` fill it from a method's proposals, `verify_fallback` from records that no method proposed,
`verify_offered` from records that the caller knows. Where a share of the future models has to accept the answer,
`verify_committee` goes on from there. Where time or budget runs out, the draft keeps what was found until then.
"""

from app.recourse.verification.draft import Draft
from app.recourse.verification.future import verify_committee
from app.recourse.verification.plan import verify_plan
from app.recourse.verification.single import verify_fallback, verify_offered, verify_one
