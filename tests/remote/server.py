"""``python -m tests.remote.server``: a model server on a free port of loopback, which it prints.

It speaks the Open Inference Protocol v2 at ``/v2/models/{encoded,raw}/infer`` and MLflow at
``/{encoded,raw}/invocations``, around logistic models that are written out here. ``POST /behave`` makes it misbehave
from the next request on, and ``GET /asked`` tells what it was asked since then. Only the standard library, so that it
starts at once.
"""

import json
import math
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from tests.registry.loan import WEIGHTS

INTERCEPT = -0.5
SECRET = "sesame"


def of_point(point: list[float]) -> float:
    """Probability for an encoded point: the linear model of `tests.registry.loan`."""
    return 1.0 / (1.0 + math.exp(-(INTERCEPT + sum(w * x for w, x in zip(WEIGHTS.values(), point, strict=True)))))


def of_record(record: dict[str, Any]) -> float:
    """Probability for a raw record."""
    total = record["income"] / 2_000 - record["amount"] / 9_000 + 0.02 * record["age"] - 1.0
    total += {"none": 0.0, "some": 0.3, "much": 0.6}[record["savings"]] + 0.7 * record["guarantor"]
    return 1.0 / (1.0 + math.exp(-total - {"rented": 0.0, "owned": 0.4, "free": 0.2}[record["housing"]]))


class State:
    mode: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[dict[str, Any]]] = []
    release = threading.Event()
    """Lets requests go that wait."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        if self.path == "/asked":
            return self._send(200, State.asked)
        described = State.mode.get("metadata")
        return self._send(200 if described else 404, described or {"error": "unknown"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/behave":
            State.release.set()
            State.release = threading.Event()
            State.mode, State.asked = body, []
            return self._send(200, {})
        probabilities = _probabilities(self.path, body)
        host, secret = self.headers["Host"], self.headers["Authorization"] or self.headers["X-Key"]
        State.asked.append({
            "rows": len(probabilities), "host": host, "secret": secret, "from": self.client_address[1],
            "path": self.path, "body": body,
            "origin": [self.headers["X-Request-ID"], self.headers["traceparent"]],
        })  # fmt: skip
        mode = State.mode if len(State.asked) > State.mode.get("after", 0) else {}
        return self._misbehave(mode.get("is", "well"), mode, body, probabilities)

    def _misbehave(self, how: str, mode: dict[str, Any], body: Any, p: list[float]) -> None:
        oip = self.path.startswith("/v2")
        match how:
            case "slow":
                State.release.wait(60)
            case "dripping":
                return self._drip()
            case "hanging up":
                self.close_connection = True
                return None
            case "dying":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"predictions": [0.1, ')
                self.wfile.flush()
                os._exit(1)
            case "garbage":
                return self._send_bytes(200, b"<html>" + json.dumps(body).encode())
            case "nested":
                return self._send_bytes(200, b"[" * 50_000)
            case "huge":
                return self._huge()
            case "status":
                headers = {"Location": mode.get("location", ""), "Retry-After": mode.get("retry_after", "")}
                return self._send_bytes(mode["status"], json.dumps(body).encode(), headers)
            case "other model":
                p = [min(one + 0.01, 1.0) for one in p]
            case "few":
                p = p[:-1]
            case "nan":
                p = [*p[:-1], math.nan] if not mode.get("all") else [*p[:8], *[math.nan] * (len(p) - 8)]
        values: list[Any] = {"text": [str(one) for one in p], "too much": [1.5] * len(p)}.get(how, list(p))
        if how == "labels":
            values = [mode["names"][one >= 0.5] for one in p]
        if how == "two":
            values = [[1.0 - one, one] for one in p]
        if oip:
            return self._send(200, {"outputs": [self._tensor(how, mode, values, len(p))]})
        if mode.get("named"):
            values = [{"no": 1.0 - one, "yes": one} for one in p]
        return self._send(200, {"predictions": {"yes": p} if mode.get("columns") else values})

    def _tensor(self, how: str, mode: dict[str, Any], values: list[Any], n: int) -> dict[str, Any]:
        shape = {"two": [n, 2], "column": [n, 1], "shape": [n, 3]}.get(how, [n])
        flat = [v for row in values for v in row] if how == "two" and not mode.get("nested") else values
        return {"name": "other" if how == "name" else "p", "datatype": "FP64", "shape": shape, "data": flat}

    def _send(self, status: int, document: Any) -> None:
        self._send_bytes(status, json.dumps(document).encode())

    def _send_bytes(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _huge(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(10**12))
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"1," * 100_000)
        except OSError:
            self.close_connection = True

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        try:
            while not State.release.wait(0.05):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            self.close_connection = True


def _probabilities(path: str, body: dict[str, Any]) -> list[float]:
    if path.startswith("/v2"):
        inputs = {one["name"]: one for one in body["inputs"]}
        if "encoded" in path:
            (n, d), data = inputs["x"]["shape"], inputs["x"]["data"]
            return [of_point(data[i * d : (i + 1) * d]) for i in range(n)]
        columns = {State.mode.get("inputs", {}).get(name, name): one["data"] for name, one in inputs.items()}
        return [of_record(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    table = body["dataframe_split"]
    if "encoded" in path:
        return [of_point(row) for row in table["data"]]
    return [of_record(dict(zip(table["columns"], row, strict=True))) for row in table["data"]]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 50

    def handle_error(self, *args: object) -> None:
        """Whoever hung up knows."""


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # ends with whoever started it
