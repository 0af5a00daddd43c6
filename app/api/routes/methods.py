"""The recourse methods."""

from fastapi import APIRouter
from starlette.responses import JSONResponse

from app import errors
from app.api.documented import refusals
from app.api.json_route import StrictRoute
from app.api.schemas.methods import CHOICES, DEFAULT_METHOD, Methods
from app.recourse.solve import METHODS

router = APIRouter(tags=["recourse"], route_class=StrictRoute)

DESCRIPTIONS = [
    {
        "name": method.name,
        "summary": method.summary,
        "reference": method.reference,
        "yields": method.yields.value,
        "needs": sorted(need.value for need in method.needs),
        "parameters": CHOICES[method.name].model_json_schema(),
    }
    for method in METHODS.values()
]


@router.get(
    "/methods",
    name="list_methods",
    summary="All recourse methods",
    response_model=Methods,
    responses=refusals("/methods", errors.InvalidRequest),
)
async def list_methods() -> JSONResponse:
    """Each with what it promises, and its parameters as JSON Schema."""
    return JSONResponse({"default": DEFAULT_METHOD, "methods": DESCRIPTIONS})
