"""The application as FastAPI sees it, and its description: `openapi.json` is generated from here and checked in."""

import json
from collections.abc import Sequence
from importlib.resources import files
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Lifespan

from app import __version__
from app.api import errors
from app.api.all_faults import further_faults
from app.api.many_rows import limits
from app.api.middleware import BodyLimit, EarlyAnswers, HeadLimit, HeadRequests, RequestContext
from app.api.problem import Problem
from app.api.routes import docs, health, metrics, problems, root, workbench
from app.calibration import route as calibration
from app.cases import route as cases
from app.jobs import route as jobs
from app.keys.authentication import SECURITY_SCHEMES
from app.ledger import route as ledger
from app.letters import route as notice
from app.metrics import Metrics
from app.models import route as models
from app.portfolio import route as comparisons
from app.portfolio.report_schema import ReportRequest
from app.portfolio.schema import ComparisonRequest
from app.questions import batch_route as batch
from app.questions import kserve_route as kserve
from app.questions import methods_route as methods
from app.questions import route as recourse
from app.questions.batch_schema import BatchProblem, BatchRequest, BatchRow
from app.reasons import route as reasons
from app.service import Service
from app.settings import Settings

DESCRIPTION = """\
Algorithmic recourse: what an applicant can change so that a lender's model accepts, also after the model changes.

Records have the model's own features, units and categories. Errors are RFC 9457 problem documents
(`application/problem+json`) that list all faults of a request. While no key is needed, a request that names
another host than this machine gets 421. Every response carries `X-Request-ID`: that of the request, if it is 1 to 128
visible ASCII characters without double quotes and backslashes.
"""

SERVER = {"url": "http://127.0.0.1:8000", "description": "The service as `make run` starts it."}
"""In the file, where generators take the default address of a client from; a running service names its own."""

COLUMNS = 120
"""Of `openapi.json`."""

Operations = list[dict[str, Any]]
"""Of a description, to be written to."""

CORS: dict[str, Any] = {
    "allow_methods": ["GET", "POST", "DELETE"],
    "allow_headers": ["Authorization", "Content-Type", "Idempotency-Key", "Prefer", "X-Request-ID", "traceparent"],
    "expose_headers": ["ETag", "Idempotent-Replayed", "Location", "RateLimit", "Retry-After", "X-Request-ID"],
}


MODULES = (
    recourse, reasons, batch, kserve, ledger, comparisons, notice, cases, calibration, methods, models, jobs, health,
    metrics, problems, docs, root, workbench,
)  # fmt: skip
"""The routes of the service, in the order of its description."""


def http_api(service: Service | None = None, lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """The HTTP application of a service; with `service` None, only for making the OpenAPI description."""
    app = _api(service, lifespan, MODULES)
    app.mount(docs.STATIC, docs.static)
    app.mount(workbench.STATIC, workbench.static)
    return app


def worker_api(service: Service) -> FastAPI:
    """The HTTP application of a worker: only health, metrics and the pages that explain problems."""
    return _api(service, None, (health, metrics, problems))


def _api(service: Service | None, lifespan: Lifespan[FastAPI] | None, modules: Sequence[ModuleType]) -> FastAPI:
    settings = Settings() if service is None else service.settings
    app = FastAPI(
        title="recourse",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Spans and logs would hold what exceptions say, and that may be applicant data.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        generate_unique_id_function=_operation_id,
    )
    for module in modules:
        app.include_router(module.router)
    errors.install(app, further_faults)
    # The last one added is the outermost.
    app.add_middleware(
        BodyLimit,
        max_bytes=settings.max_body_bytes,
        larger=limits(settings.max_batch_bytes),
        all_bytes=settings.max_bodies_bytes,
    )
    if settings.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, **CORS)
    app.add_middleware(HeadRequests)
    app.add_middleware(HeadLimit)
    app.add_middleware(RequestContext, metrics=Metrics() if service is None else service.metrics)
    app.add_middleware(EarlyAnswers)
    app.state.service = service
    app.state.batches = WeakValueDictionary()
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]
    return app


def render() -> str:
    """The text of `openapi.json`."""
    return _wrapped(http_api().openapi()) + "\n"


def _wrapped(value: Any, depth: int = 0) -> str:
    """JSON with sorted keys; what fits into a line of 120 columns stands in one."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or depth + len(line) <= COLUMNS:
        return line
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_wrapped(value[name], depth + 1)}" for name in sorted(value)]
    else:
        parts = [_wrapped(one, depth + 1) for one in value]
    between = "\n" + " " * (depth + 1)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}{between}{f',{between}'.join(parts)}\n{' ' * depth}{last}"


def _operation_id(route: APIRoute) -> str:
    return route.name


def _description(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        description = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, servers=[SERVER]
        )
        # What no route declares as its own type: problems, and the body that comes in two forms.
        for model in (Problem, BatchRequest, BatchRow, BatchProblem, ComparisonRequest, ReportRequest):
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            description["components"]["schemas"] |= {**schema.pop("$defs", {}), model.__name__: schema}
        description["components"]["securitySchemes"] = SECURITY_SCHEMES
        operations = [operation for item in description["paths"].values() for operation in item.values()]
        _describe_streams(operations)
        _add_examples(operations)
        _shorten(description)
        description["components"] |= {**_share_responses(operations), "parameters": _share_parameters(operations)}
        app.openapi_schema = description
    return app.openapi_schema


def _add_examples(operations: Operations) -> None:
    """Add the answers of the demo to its example requests."""
    answers = json.loads((files("app.api") / "answer_examples.json").read_text(encoding="utf-8"))
    for operation in operations:
        answer = operation["responses"].get("200", {})
        content = answer.get("content", {})
        if answer.get("description") == "Successful Response":
            answer["description"] = "OK."
        if "application/json" in content:
            content["application/json"]["example"] = answers[operation["operationId"]]
        if "202" in operation["responses"]:
            operation["responses"]["202"]["content"]["application/json"]["example"] = answers["create_batch"]


def _share_responses(operations: Operations) -> dict[str, Any]:
    """Write the refusals of each status, and the job in place of an answer, once; return what is referred to.

    Codes that not every operation with the status has are listed in `x-problems` of those that have them.
    """
    responses: dict[str, Any] = {}
    examples: dict[str, Any] = {}
    given: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
    for operation in operations:
        for status, response in operation["responses"].items():
            name = status
            if (problems := response.get("content", {}).get(errors.PROBLEM_JSON)) is not None:
                own = problems["examples"]
                given.append((operation, status, own))
                examples |= own
                shared = responses.setdefault(status, response)["content"][errors.PROBLEM_JSON]
                references = {code: {"$ref": f"#/components/examples/{code}"} for code in own}
                shared["examples"] = references if shared is problems else shared["examples"] | references
            elif status == "202":
                name = _shared(responses, status, response)
            else:
                continue
            operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}
    for operation, status, own in given:
        common = set.intersection(*(set(others) for _, other, others in given if other == status))
        if some := set(own) - common:
            operation["x-problems"] = sorted({*operation.get("x-problems", ()), *some})
    return {"responses": responses, "examples": examples}


def _shared(shared: dict[str, Any], name: str, part: dict[str, Any]) -> str:
    """The name of a part among those that are shared; the second of a name has a 2 after it."""
    alike = [one for one in shared if one.partition(".")[0] == name]
    for one in alike:
        if shared[one] == part:
            return one
    new = f"{name}.{len(alike) + 1}" if alike else name
    shared[new] = part
    return new


def _share_parameters(operations: Operations) -> dict[str, Any]:
    """Write each parameter that several operations have once."""
    given = [parameter for operation in operations for parameter in operation.get("parameters", [])]
    for parameter in given:
        parameter["schema"].pop("description", None)  # the framework repeats it there
    several = [parameter for parameter in given if given.count(parameter) > 1]
    shared: dict[str, Any] = {}
    for operation in operations:
        if "parameters" in operation:
            operation["parameters"] = [
                {"$ref": f"#/components/parameters/{_shared(shared, one['name'], one)}"} if one in several else one
                for one in operation["parameters"]
            ]
    return shared


def _shorten(part: Any) -> None:
    """Leave out defaults of null, and titles, which the framework makes of names.

    A plain type that may be null becomes a list of two types.
    """
    if isinstance(part, dict):
        if part.get("default", ...) is None:
            del part["default"]
        named = (*part.get("properties", {}).values(), *part.get("schemas", {}).values())
        for schema in (*named, part.get("schema"), part.get("items")):
            if isinstance(schema, dict) and isinstance(schema.get("title"), str):
                del schema["title"]
        match part:
            case {"anyOf": [{"type": str(kind), **limits}, {"type": "null"}]} if not limits.keys() & {"enum", "const"}:
                del part["anyOf"]
                part |= {**limits, "type": [kind, "null"]}
    for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _shorten(one)


def _describe_streams(operations: Operations) -> None:
    """Leave out `itemSchema`, which the framework writes for event streams and OpenAPI has from 3.2 on."""
    for response in (response for operation in operations for response in operation["responses"].values()):
        for content in response.get("content", {}).values():
            content.pop("itemSchema", None)
