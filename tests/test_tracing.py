"""Traces of a whole service, as a collector receives them by OTLP."""

import gzip
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.errors import StateUnusable
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.tracing import send_spans, span
from tests.api.asking import question
from tests.conftest import until
from tests.optional import library
from tests.remote.serving import make_remote, shared
from tests.servers import starting

PARENT = "b7ad6b7169203331"
TRACE = "0af7651916cd43dd8448eb211c80319c"


class Collector:
    """Spans that were sent to `url`, by id."""

    def __init__(self) -> None:
        request_class = library("opentelemetry.proto.collector.trace.v1.trace_service_pb2").ExportTraceServiceRequest
        library("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        self.spans: dict[str, Any] = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                for resource in request_class.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        collector.spans |= {one.span_id.hex(): one for one in scope.spans}
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def of(self, trace: str) -> list[Any]:
        return sorted(
            (one for one in self.spans.values() if one.trace_id.hex() == trace),
            key=lambda one: one.start_time_unix_nano,
        )


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


def test_a_request_is_followed_to_the_model_and_the_ledger(collector: Collector, tmp_path: Path) -> None:
    model_server = shared()
    model_server.behave()
    registry = Registry(tmp_path / "store", Trust(hosts=model_server.hosts))
    registry.register(make_remote(tmp_path / "model", model_server).write(id="loan"))
    more = {
        "RECOURSE_REMOTE_HOSTS": f"http://127.0.0.1:{model_server.port}=127.0.0.1",
        "RECOURSE_TRACES_URL": collector.url,
    }
    with starting("sqlite", registry.root, tmp_path) as start:
        server = start(**more, OTEL_BSP_SCHEDULE_DELAY="100").ready()
        model_server.behave()
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "case-7"}
        answer = server.client.post("/recourse", json=question(reference="secret case"), headers=headers)
        assert answer.status_code == 200, answer.text
        job = server.client.post("/recourse", json=question(store=False), headers={"Prefer": "wait=30"})
        assert job.status_code == 200, job.text
        until(lambda: any(one.name == "job" for one in collector.spans.values()))
        until(lambda: any(one.name == "POST /recourse" for one in collector.of(TRACE)))
        server.end()
    spans = collector.of(TRACE)
    (whole,) = (one for one in spans if one.name == "POST /recourse")
    assert whole.parent_span_id.hex() == PARENT
    (compute,) = (one for one in spans if one.name == "compute")
    calls = [one for one in spans if one.name == "model call"]
    below = {one.name for one in spans if one.parent_span_id == whole.span_id}
    assert below == {"queue", "compute", "ledger"}
    assert len(calls) >= answer.json()["diagnostics"]["model_calls"] > 0
    for one in calls:
        assert one.parent_span_id == compute.span_id
        assert compute.start_time_unix_nano <= one.start_time_unix_nano <= one.end_time_unix_nano
        assert one.end_time_unix_nano <= compute.end_time_unix_nano
    heard = {one["origin"][1] for one in model_server.asked() if one["origin"][0] == "case-7"}
    assert heard == {f"00-{TRACE}-{compute.span_id.hex()}-01"}
    texts = " ".join(str(one) for one in collector.spans.values())
    assert "secret case" not in texts
    assert "20000" not in texts
    (part,) = (one for one in collector.spans.values() if one.name == "job")
    assert "compute" in {one.name for one in collector.spans.values() if one.parent_span_id == part.span_id}


def test_nothing_is_traced_without_a_collector() -> None:
    with span("nothing") as found:
        assert not found.is_recording()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(StateUnusable, match=r"recourse-service\[traces\]"):
        send_spans("http://127.0.0.1:1/v1/traces", "0")
