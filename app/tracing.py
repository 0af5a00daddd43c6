"""Spans of OpenTelemetry; they go nowhere until `send_spans` has named a collector.

The parent of a span is the `traceparent` of its context, which is its own while it lasts: children, servers of remote
models and lines of the log belong to it. Attributes hold no applicant data, and errors only their class.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.errors import StateUnusable
from app.observability import traceparent

Facts = Mapping[str, str | int]

Timed = tuple[str, int, int, Facts]
"""A span of a child: its name, begin and end in nanoseconds since 1970, and attributes."""

timed: ContextVar[list[Timed] | None] = ContextVar("timed", default=None)
"""Spans of a child for its server; None where none are requested."""

SEND_S = 3.0
"""Longest time that sending spans takes, also at the end of the process."""

_WIRE = TraceContextTextMapPropagator()
_TRACER = trace.get_tracer("recourse")


def send_spans(url: str, version: str) -> None:
    """Send the spans of this process to a collector from now on, until `end_spans`.

    Further settings are those of OpenTelemetry: `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS` and the like.

    Raises `StateUnusable` where the libraries are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        needed = 'RECOURSE_TRACES_URL needs pip install "recourse-service[traces]"'
        raise StateUnusable(f"{needed} ({error.name} is missing).") from error
    resource = Resource.create({"service.name": "recourse", "service.version": version})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=SEND_S)))
    trace.set_tracer_provider(provider)


def end_spans() -> None:
    """Send the last spans. Blocks until the collector has them, or sending has timed out."""
    if (shutdown := getattr(trace.get_tracer_provider(), "shutdown", None)) is not None:
        shutdown()


@contextmanager
def span(name: str, kind: trace.SpanKind = trace.SpanKind.INTERNAL, **facts: str | int) -> Iterator[trace.Span]:
    """Context manager: a tracing span that lasts as long as the block. Spans inside the block are its children."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield trace.INVALID_SPAN  # nothing is sent
        return
    found = _TRACER.start_span(name, _parent(), kind, facts, record_exception=False)
    if not found.is_recording():
        yield found
        return
    carrier: dict[str, str] = {}
    _WIRE.inject(carrier, trace.set_span_in_context(found))
    token = traceparent.set(carrier["traceparent"])
    try:
        yield found
    except BaseException as error:
        found.set_status(trace.StatusCode.ERROR, type(error).__name__)
        raise
    finally:
        traceparent.reset(token)
        found.end()


@contextmanager
def child_span(name: str, **facts: str | int) -> Iterator[None]:
    """Context manager for a child process: records how long the block takes.

    The server later makes a span of the record with `add_child_spans`.
    """
    began = time.time_ns()
    try:
        yield
    finally:
        if (found := timed.get()) is not None:
            found.append((name, began, time.time_ns(), facts))


def add_child_spans(spans: Iterable[Any]) -> None:
    """Send the spans that a child process has recorded; their parent is the current span of this process."""
    for name, began, ended, facts in spans:
        _TRACER.start_span(name, _parent(), attributes=facts, start_time=began).end(ended)


def _parent() -> Any:
    parent = traceparent.get()
    return _WIRE.extract(
        {} if parent is None else {"traceparent": parent}, trace.set_span_in_context(trace.INVALID_SPAN)
    )
