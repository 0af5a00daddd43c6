"""The header `Prefer`, as RFC 7240 has it."""

from typing import Any

import httpx
import pytest

from app.api.prefer import LONGEST_WAIT_S, Prefer
from tests.api.asking import APPLICANT, problem


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Prefer()),
        ("respond-async", Prefer(respond_async=True)),
        ("Respond-Async", Prefer(respond_async=True)),
        ("wait=5", Prefer(wait_s=5)),
        ('wait="5"', Prefer(wait_s=5)),
        ("wait = 5 ", Prefer(wait_s=5)),
        ("wait=0", Prefer(wait_s=0)),
        ("respond-async, wait=10", Prefer(respond_async=True, wait_s=10)),
        ("respond-async;x=1;y, wait=10", Prefer(respond_async=True, wait_s=10)),
        ('return=minimal, foo; bar="a, wait=1", wait=2', Prefer(wait_s=2)),
        ('priority="a\\"b, wait=1", respond-async', Prefer(respond_async=True)),
        ("wait=1, wait=2", Prefer(wait_s=1)),
        ("wait=100", Prefer(wait_s=LONGEST_WAIT_S)),
        ("handling=lenient", Prefer()),
        ("wait", Prefer()),
        ("wait=", Prefer()),
        ("wait=-1", Prefer()),
        ("wait=1.5", Prefer()),
        ("wait=soon", Prefer()),
        ("wait=٣", Prefer()),
        ("wait=99999999999999999999", Prefer()),
        (",,,", Prefer()),
        ("(), respond-async", Prefer()),
    ],
)
def test_what_is_known_is_understood_and_the_rest_ignored(header: str, expected: Prefer) -> None:
    assert Prefer.parse(header) == expected


def test_what_was_followed_is_told() -> None:
    assert Prefer.parse("respond-async, wait=99, foo").applied == "respond-async, wait=30"
    assert not Prefer.parse("foo").wants_job


SPACES = " " * 60_000

HOSTILE = [
    '"' * 5000, "a=" * 5000, "a;" * 5000, 'a="' * 3000, "a , " * 5000, SPACES,
    f'a{SPACES}"', f'a={SPACES}"', f'a=b{SPACES}"', f'a="b"{SPACES}"', f'a{SPACES}={SPACES}"', f'a;{SPACES}"',
]  # fmt: skip
"""Who tries every way to part the spaces among the patterns needs minutes."""


@pytest.mark.parametrize("header", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_header_takes_no_time(header: str) -> None:
    assert Prefer.parse(header) == Prefer()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/models/loan/predict", {"records": [APPLICANT]}),
        ("/reasons", {"model": "loan", "applicant": APPLICANT}),
    ],
)
def test_what_is_always_direct_refuses_to_be_a_job(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    refused = client.post(path, json=body, headers={"Prefer": "respond-async"})
    assert "always answers directly" in problem(refused, 422, "invalid-request")["detail"]
    assert client.post(path, json=body, headers={"Prefer": "wait=5"}).status_code == 200
