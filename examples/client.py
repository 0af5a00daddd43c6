"""A client of the HTTP interface, with httpx alone: sends the demo request and prints what the applicant can change.

python examples/client.py                              # the service of `make run`
python examples/client.py --url URL --later            # as a job: submit, poll, fetch the result
RECOURSE_KEY=rk_… python examples/client.py --url URL  # a service that needs an API key
"""

import argparse
import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

REQUEST = Path(__file__).parent / "consumer_loan" / "request.json"

ATTEMPTS = 4
"""How often a request is sent before its failure is raised."""


class ProblemError(Exception):
    """An error of the service: a problem document (RFC 9457)."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.code: str = problem["code"]
        """Stable; branch on this, not on the text."""
        self.errors: list[dict[str, str]] = problem.get("errors") or []
        """Every fault of the request, each with a JSON pointer into its body."""
        faults = "".join(f"\n  {fault['pointer'] or '/'}: {fault['detail']}" for fault in self.errors)
        super().__init__(f"{problem['status']} {self.code}: {problem['detail']}{faults}")


class Client:
    """The service at `url`. Every method raises `ProblemError`, or `httpx.TransportError` after the last attempt."""

    def __init__(self, url: str, key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=70.0)  # deadline_ms is at most a minute

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def recourse(self, question: dict[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        """The answer to `question`, the body of POST /recourse, in the same connection."""
        return dict(self._post("/recourse", question, idempotency_key).json())

    def recourse_later(self, question: dict[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        """The same as a job, which outlives this connection and the server: submit, poll, fetch the result."""
        accepted = self._post("/recourse", question, idempotency_key, {"Prefer": "respond-async"})
        address, pause_s = accepted.headers["Location"], 0.1
        while (job := self._checked(self._http.get(address)).json())["status"] in ("queued", "running"):
            time.sleep(pause_s)
            pause_s = min(2.0 * pause_s, 2.0)
        if job["error"]:
            raise ProblemError(job["error"])
        return dict(self._checked(self._http.get(f"{address}/results")).json())

    def _post(
        self, path: str, body: dict[str, Any], key: str | None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Repeat until answered. Repeats carry one `Idempotency-Key`, so they make no second job or promise."""
        sent = {"Idempotency-Key": key or str(uuid.uuid4())} | (headers or {})
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = self._http.post(path, json=body, headers=sent)
            except httpx.TransportError:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(attempt)
                continue
            pause_s = response.headers.get("Retry-After")  # with 409, 429 and 503: the failure is temporary
            if response.is_success or pause_s is None or attempt == ATTEMPTS:
                break
            time.sleep(float(pause_s))
        return self._checked(response)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.headers.get("Content-Type", "").startswith("application/problem+json"):
            raise ProblemError(response.json())
        return response.raise_for_status()  # an error that is not ours, as of a proxy


def main() -> None:
    """Send the demo request and print the answer."""
    parser = argparse.ArgumentParser(description="Ask the demo for recourse.")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--request", type=Path, default=REQUEST, help="file with the body of POST /recourse")
    parser.add_argument("--later", action="store_true", help="as a job")
    asked = parser.parse_args()
    try:
        with Client(asked.url, os.environ.get("RECOURSE_KEY")) as client:
            ask = client.recourse_later if asked.later else client.recourse
            answer = ask(json.loads(asked.request.read_text()))
    except ProblemError as problem:
        raise SystemExit(str(problem)) from problem
    if answer["status"] != "found":  # an answer, not an error: it says why
        print(answer["status"], answer["reason"] or "", answer["detail"] or "")
    for counterfactual in answer["counterfactuals"]:
        for change in counterfactual["changes"]:
            print(change["text"])
        print(f"The model then says yes with probability {counterfactual['validity']['current']['probability']:.2f}.")


if __name__ == "__main__":
    main()
