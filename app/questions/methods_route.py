"""The recourse methods."""

from fastapi import APIRouter
from starlette.responses import Response

from app import errors
from app.api.error_docs import refusals
from app.api.etag import UNCHANGED, IfNoneMatch, if_changed
from app.api.strict_route import guarded
from app.keys.scopes import Scope
from app.questions.methods_schema import CHOICES, Methods
from app.recourse.solve import DEFAULT_METHOD, METHODS

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))

DESCRIPTIONS = [
    {
        "name": method.name,
        "summary": method.summary,
        "reference": method.reference,
        "yields": method.yields.value,
        "knobs": list(method.knobs),
        "robust_when": {knob: "larger" if sign > 0 else "smaller" for knob, sign in method.knobs.items()},
        "parameters": CHOICES[method.name].model_json_schema(),
    }
    for method in METHODS.values()
]


@router.get(
    "/methods",
    name="list_methods",
    summary="List recourse methods",
    response_model=Methods,
    responses=UNCHANGED | refusals("/methods", errors.InvalidRequest),
)
async def list_methods(if_none_match: IfNoneMatch = None) -> Response:
    """Every method: summary, publication, and parameters as JSON Schema."""
    return if_changed({"default": DEFAULT_METHOD, "methods": DESCRIPTIONS}, if_none_match)
