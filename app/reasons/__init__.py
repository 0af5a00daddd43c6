"""Why a model refuses an applicant; the numerics are in `app.recourse.reasons`."""
