"""The application as FastAPI sees it, and its description: `openapi.json` is generated from here and checked in."""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.types import Lifespan

from app import __version__
from app.api import errors
from app.api.middleware import BodyLimit, RequestContext
from app.api.routes import docs, health, jobs, methods, models, problems, recourse
from app.api.schemas.problem import Problem

DESCRIPTION = """\
What could a person change so that a lender's model says yes, and keeps saying yes?

Records go in and come out in the model's own features, units and categories. Errors are RFC 9457 problem documents
(`application/problem+json`) that list all faults of a request at once. Every response carries `X-Request-ID`.
"""

DEFAULT_MAX_BODY_BYTES = 1_000_000


def http_api(lifespan: Lifespan[FastAPI] | None = None, *, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES) -> FastAPI:
    """The HTTP application; its routes find the `Service` in ``app.state.service``."""
    app = FastAPI(
        title="recourse",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Spans and logs would hold what exceptions say, and that may be applicant data.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        generate_unique_id_function=_operation_id,
    )
    for module in (recourse, methods, models, jobs, health, problems, docs):
        app.include_router(module.router)
    app.mount(docs.STATIC, docs.static)
    errors.install(app)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    app.add_middleware(RequestContext)
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]
    return app


def render() -> str:
    """The text of `openapi.json`."""
    return json.dumps(http_api().openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _operation_id(route: APIRoute) -> str:
    return route.name


def _description(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        description = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        description["components"]["schemas"] |= {**problem.pop("$defs"), "Problem": problem}
        app.openapi_schema = description
    return app.openapi_schema
