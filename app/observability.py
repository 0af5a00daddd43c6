"""Logs: one JSON object per line on standard error, with the id of the request that caused it.

Log lines never hold applicant data: no feature values, no request bodies, no query strings, and of an exception only
where it was raised, not its message.
"""

import logging
import sys
import traceback
from contextvars import ContextVar
from pathlib import Path

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Id of the request that is being answered."""

traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""W3C trace context of the request, passed on to servers of remote models."""


def origin_headers() -> list[tuple[str, str]]:
    """HTTP headers for a request to a remote model; they identify the client's request that caused it."""
    found = {"X-Request-ID": request_id.get(), "traceparent": traceparent.get()}
    return [(name, value) for name, value in found.items() if value is not None]


log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

INDISCREET = ("dbos", "sqlalchemy", "psycopg", "httpx", "httpcore")
"""Libraries whose messages, at some level, repeat their arguments, and so applicant data."""


def configure_logging(level: str = "info") -> None:
    """Send the log of this process, with that of the web server, to standard error as JSON.

    Messages of other libraries below the level `warning` are logged at `debug` only.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        _with_origin,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_exception_text,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter
    last: list[Processor] = [formatter.remove_processors_meta, structlog.processors.JSONRenderer()]
    handler.setFormatter(formatter(foreign_pre_chain=shared, processors=last))
    others = least if level == "debug" else max(least, logging.WARNING)
    logging.basicConfig(handlers=[handler], level=others, force=True)
    logging.getLogger("uvicorn").setLevel(least)
    for name in INDISCREET:
        library = logging.getLogger(name)
        library.handlers, library.propagate = [_PlaceHandler(logging.WARNING)], False


class _PlaceHandler(logging.Handler):
    """Logs the place of a library's message, not its text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log that a library has logged something, with the place in its code.

        The library's message is left out, as it may hold data of applicants.
        """
        error = record.exc_info[1] if record.exc_info else None
        facts = {} if error is None else {"trace": trace(error)}
        place = f"{record.filename}:{record.lineno} {record.funcName}"
        log.log(record.levelno, "library-message", library=record.name, place=place, **facts)


def trace(error: BaseException) -> list[str]:
    """The class of an exception, then the lines of code that raised it.

    The exception's message is left out, as it may hold data of applicants.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return [type(error).__name__, *(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames)]


def _with_origin(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if (current := request_id.get()) is not None:
        event.setdefault("request_id", current)
    if (parent := traceparent.get()) is not None:
        _, event["trace_id"], event["parent_id"], _ = parent.split("-")
    return event


def _without_exception_text(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    exc_info = event.pop("exc_info", None)
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        event["trace"] = trace(error)
    return event
