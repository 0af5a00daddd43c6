"""What a client does, without doing it: generators that yield steps and receive their results.

`clients` takes the steps, blocking or awaiting, so that each operation is written once.
"""

import json
import uuid
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

import httpx

from .problem import checked

Json: TypeAlias = dict[str, Any]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two looks at a job."""

LONGEST_RETRY_S = 60.0
"""Longest pause before a request is sent again, whatever `Retry-After` says."""

UNFINISHED = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; the result is its response, or a `httpx.TransportError` is raised."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


Value = TypeVar("Value")
Operation: TypeAlias = Generator[Send | Pause, Any, Value]
"""Takes steps, and returns a value."""


def sent(request: Send, attempts: int) -> Operation[httpx.Response]:
    """The response to a request that is sent again while its failure is temporary.

    That is: the connection failed, or the response says `Retry-After`. Raises as `checked`, or `httpx.TransportError`.
    """
    for attempt in range(1, attempts + 1):
        try:
            response: httpx.Response = yield request
        except httpx.TransportError:
            if attempt == attempts:
                raise
            yield Pause(float(attempt))
            continue
        if response.is_success or "Retry-After" not in response.headers or attempt == attempts:
            break
        yield Pause(_seconds(response.headers["Retry-After"], float(attempt)))
    return checked(response)


def _seconds(retry_after: str, otherwise: float) -> float:
    """The pause that a response asks for; it may name a date instead, as proxies do."""
    return min(float(retry_after), LONGEST_RETRY_S) if retry_after.isdecimal() else otherwise


class Operations:
    """The operations of one client, as generators."""

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts

    # --- questions about an applicant ---

    def recourse(self, question: Json, *, later: bool = False, idempotency_key: str | None = None) -> Operation[Json]:
        """What an applicant could change: the answer to the body of POST /recourse.

        With `later` it is a job, which outlives this connection and the server; this waits for its result.
        """
        return self._asked("/recourse", question, later, idempotency_key)

    def frontier(self, question: Json, *, later: bool = False, idempotency_key: str | None = None) -> Operation[Json]:
        """What more robustness costs the applicant: POST /recourse/frontier."""
        return self._asked("/recourse/frontier", question, later, idempotency_key)

    def offers(self, question: Json, *, later: bool = False, idempotency_key: str | None = None) -> Operation[Json]:
        """With which terms of the contract the applicant is accepted as they are: POST /recourse/offers."""
        return self._asked("/recourse/offers", question, later, idempotency_key)

    def certify(self, question: Json, *, later: bool = False, idempotency_key: str | None = None) -> Operation[Json]:
        """The certificates of counterfactuals from any source: POST /recourse/validity."""
        return self._asked("/recourse/validity", question, later, idempotency_key)

    def correct(self, question: Json, *, later: bool = False, idempotency_key: str | None = None) -> Operation[Json]:
        """A plan from any source, corrected: POST /recourse/correct."""
        return self._asked("/recourse/correct", question, later, idempotency_key)

    def submit_batch(
        self, common: Json, applicants: Iterable[Json], *, idempotency_key: str | None = None
    ) -> Operation[Json]:
        """The job of a batch: what the applicants have in common, and `{"applicant": …, "reference": …}` of each."""
        content = b"".join(json.dumps(line).encode() + b"\n" for line in (common, *applicants))
        headers = {"Content-Type": "application/x-ndjson"}
        response = yield from self._post("/recourse/batch", content, headers, idempotency_key)
        return _body(response)

    # --- recourse that was given ---

    def given(self, recourse_id: str) -> Operation[Json]:
        """An answer in the ledger, in full."""
        return self._got(f"/recourse/{_in_path(recourse_id)}")

    def verify(self, recourse_id: str, model: str | None = None) -> Operation[Json]:
        """Whether it still holds: what a version of the model, by default the newest active one, decides."""
        body = {} if model is None else {"model": model}
        response = yield from self._post_json(f"/recourse/{_in_path(recourse_id)}/verify", body)
        return _body(response)

    def erase(self, recourse_id: str) -> Operation[Json | None]:
        """Erase its personal data: the tombstone, or None where it was not in the ledger."""
        response = yield from self._send(Send("DELETE", f"/recourse/{_in_path(recourse_id)}"))
        return None if response.status_code == 204 else _body(response)

    def audit(self, model_id: str, body: Json, *, idempotency_key: str | None = None) -> Operation[Json]:
        """How many promises a version keeps: the result of POST /models/{id}/audits, waited for."""
        return self._asked(f"/models/{_in_path(model_id)}/audits", body, False, idempotency_key)

    # --- models and methods ---

    def models(self) -> Operation[list[Json]]:
        """Every registered version."""
        found = yield from self._got("/models")
        return list(found["models"])

    def model(self, name: str) -> Operation[Json]:
        """One version: `id` for the newest active one, or `id@version`."""
        return self._got(f"/models/{_in_path(name)}")

    def schema(self, name: str) -> Operation[Json]:
        """The features of a model, and how each may change."""
        return self._got(f"/models/{_in_path(name)}/schema")

    def predict(self, name: str, records: Iterable[Json]) -> Operation[Json]:
        """The model's decisions about records."""
        response = yield from self._post_json(f"/models/{_in_path(name)}/predict", {"records": list(records)})
        return _body(response)

    def methods(self) -> Operation[list[Json]]:
        """The methods with their parameters."""
        found = yield from self._got("/methods")
        return list(found["methods"])

    # --- jobs ---

    def job(self, job_id: str) -> Operation[Json]:
        """The state of a job."""
        return self._got(f"/jobs/{_in_path(job_id)}")

    def wait(self, job_id: str) -> Operation[Json]:
        """One job once it has ended, with or without a result."""
        pause_s = FIRST_PAUSE_S
        while (job := (yield from self.job(job_id)))["status"] in UNFINISHED:
            yield Pause(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
        return job

    def result(self, job_id: str) -> Operation[Json]:
        """Wait for a job and return its result; `lines` reads a batch. Raises the problem of a job that failed."""
        yield from self.wait(job_id)
        return (yield from self._got(f"/jobs/{_in_path(job_id)}/results"))

    def cancel(self, job_id: str) -> Operation[Json]:
        """Cancel a job."""
        response = yield from self._send(Send("DELETE", f"/jobs/{_in_path(job_id)}"))
        return _body(response)

    # --- requests ---

    def page(self, path: str, params: dict[str, str]) -> Operation[Json]:
        """A page of a list."""
        response = yield from self._send(Send("GET", path, params=params))
        return _body(response)

    def _got(self, path: str) -> Operation[Json]:
        response = yield from self._send(Send("GET", path))
        return _body(response)

    def _asked(self, path: str, question: Json, later: bool, key: str | None) -> Operation[Json]:
        headers = {"Prefer": "respond-async"} if later else {}
        response = yield from self._post_json(path, question, headers, key)
        if response.status_code == httpx.codes.ACCEPTED:
            return (yield from self.result(_body(response)["id"]))
        return _body(response)

    def _post_json(
        self, path: str, body: Json, headers: dict[str, str] | None = None, key: str | None = None
    ) -> Operation[httpx.Response]:
        sending = {"Content-Type": "application/json", **(headers or {})}
        return self._post(path, json.dumps(body).encode(), sending, key)

    def _post(self, path: str, content: bytes, headers: dict[str, str], key: str | None) -> Operation[httpx.Response]:
        """Attempts carry one `Idempotency-Key`, so that they make no second job or promise."""
        named = {"Idempotency-Key": key or str(uuid.uuid4()), **headers}
        return self._send(Send("POST", path, headers=named, content=content))

    def _send(self, request: Send) -> Operation[httpx.Response]:
        return sent(request, self.attempts)


def _in_path(name: str) -> str:
    return quote(name, safe="@")


def _body(response: httpx.Response) -> Json:
    return dict(response.json())
