"""Sends the demo request with the client of the package, and prints what the applicant can change.

python examples/client.py                              # the service of `make run`
python examples/client.py --url URL --later            # as a job: submit, wait, fetch the result
RECOURSE_KEY=rk_… python examples/client.py --url URL  # a service that needs an API key
"""

import argparse
import json
import os
from pathlib import Path

import httpx
from recourse_client import Client, ProblemError

REQUEST = Path(__file__).parent / "consumer_loan" / "request.json"


def main() -> None:
    """Send the demo request and print the answer."""
    parser = argparse.ArgumentParser(description="Ask the demo for recourse.")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--request", type=Path, default=REQUEST, help="file with the body of POST /recourse")
    parser.add_argument("--later", action="store_true", help="as a job")
    asked = parser.parse_args()
    try:
        with Client(asked.url, os.environ.get("RECOURSE_KEY")) as client:
            answer = client.recourse(json.loads(asked.request.read_text()), later=asked.later)
    except (ProblemError, httpx.TransportError) as error:
        raise SystemExit(f"{asked.url}: {error}") from error
    if answer["status"] != "found":  # an answer, not an error: it says why
        print(answer["status"], answer["reason"] or "", answer["detail"] or "")
    for counterfactual in answer["counterfactuals"]:
        for change in counterfactual["changes"]:
            print(change["text"])
        print(f"The model then says yes with probability {counterfactual['validity']['current']['probability']:.2f}.")


if __name__ == "__main__":
    main()
