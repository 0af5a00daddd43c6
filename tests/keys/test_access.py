"""Who may ask, and how often."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from app.errors import InsufficientScope, LedgerUnavailable, Misdirected, NotReady, Open, TooManyRequests
from app.keys import access
from app.keys.access import Access, Rounds, refuse_open
from app.keys.keys import Key
from app.keys.scopes import Scope
from app.ledger.recorder import Recorder
from app.settings import Settings


@pytest.mark.parametrize(
    ("settings", "any_key", "refused"),
    [
        ({}, False, False),
        ({"host": "::1"}, False, False),
        ({"host": "localhost"}, False, False),
        ({"auth": "off"}, True, False),
        ({"host": "0.0.0.0"}, False, True),
        ({"host": "::"}, False, True),
        ({"host": "192.0.2.1"}, False, True),
        ({"host": "service.example"}, False, True),
        ({"host": "0.0.0.0"}, True, False),
        ({"host": "0.0.0.0", "auth": "required"}, False, False),
        ({"host": "0.0.0.0", "auth": "off"}, True, True),
        ({"host": "0.0.0.0", "published_on": "127.0.0.1"}, False, False),
        ({"host": "0.0.0.0", "published_on": "127.0.0.1", "auth": "off"}, False, False),
        ({"host": "127.0.0.1", "published_on": "192.0.2.1"}, False, True),
    ],
)
def test_the_service_does_not_start_open_where_others_reach_it(
    settings: dict[str, Any], any_key: bool, refused: bool
) -> None:
    if refused:
        with pytest.raises(Open):
            refuse_open(Settings(**settings), lambda: any_key)
    else:
        refuse_open(Settings(**settings), lambda: any_key)


@pytest.mark.parametrize(
    ("hosts", "own"),
    [
        (["localhost"], True),
        (["LOCALHOST:8000"], True),
        (["127.0.0.1:8000"], True),
        (["127.8.8.8"], True),
        (["[::1]:8000"], True),
        (["172.17.0.2:8000"], True),
        ([], True),
        ([""], False),
        (["172.17.0.3"], False),
        (["8.8.8.8"], False),
        (["2130706433"], False),
        (["0x7f000001"], False),
        (["foo"], False),
        (["recourse:8000"], False),
        (["evil.example"], False),
        (["evil.example:8000"], False),
        (["localhost.evil.example"], False),
        (["127.0.0.1.evil.example"], False),
        (["192.0.2.1"], False),
        (["evil.example."], False),
        (["me@localhost"], False),
        (["localhost:x"], False),
        (["localhost/x"], False),
        (["[::1"], False),
        (["localhost", "localhost"], False),
        (["localhost", "evil.example"], False),
    ],
)
def test_without_keys_a_request_is_for_this_machine(hosts: list[str], own: bool) -> None:
    door = limited(auth="off")
    if own:
        door.require_own_host(hosts, "172.17.0.2")
    else:
        with pytest.raises(Misdirected, match=r"localhost.*127\.0\.0\.1.*recourse keys create"):
            door.require_own_host(hosts, "172.17.0.2")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(access.time, "monotonic", lambda: now[0])
    return now


def limited(**settings: Any) -> Access:
    chosen = Settings(**settings)

    async def forget(_records: object) -> None:
        """Nothing is kept."""

    return Access(chosen, Recorder(chosen, forget))


def keyed(read: Callable[[], Awaitable[list[Key]]]) -> Access:
    """Where keys are needed, and read like this."""

    class Fake:
        async def run(self, _work: object) -> list[Key]:
            return await read()

    return Access(Settings(auth="required"), cast(Recorder, Fake()))


def test_each_caller_has_a_bucket_that_fills_again(clock: list[float]) -> None:
    door = limited(rate_limit=60, auth="off")
    first = door.count("a")
    assert first
    assert (first.limit, first.left, first.full_s) == (60, 59, 1.0)
    for _ in range(59):
        door.count("a")
    with pytest.raises(TooManyRequests) as refused:
        door.count("a")
    assert refused.value.facts["retry_after_s"] == pytest.approx(1.0)
    assert door.count("b") == first
    clock[0] += 2.0
    assert [door.count("a"), door.count("a")][-1].left == 0  # type: ignore[union-attr]
    with pytest.raises(TooManyRequests):
        door.count("a")
    clock[0] += 3600.0
    assert door.count("a") == first


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"auth": "off"}, None),
        ({"auth": "auto"}, None),
        ({"auth": "required"}, access.RATE_WITH_KEYS),
        ({"auth": "required", "rate_limit": 0}, None),
        ({"auth": "auto", "rate_limit": 5}, 5),
    ],
)
def test_what_is_taken_unless_the_operator_says_otherwise(settings: dict[str, Any], limit: int | None) -> None:
    rate = limited(**settings).count("a")
    assert (rate and rate.limit) == limit


def test_who_was_silent_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_CALLERS", 2)
    door = limited(rate_limit=60, auth="off")
    for caller in ("a", "b", "a", "c"):
        door.count(caller)
    assert list(door._buckets) == ["a", "c"]


async def test_all_who_wait_for_the_keys_are_told_at_once_that_they_cannot_be_read() -> None:
    """Where each waited for the one before it, the last would wait for hours."""

    stalled, tried = asyncio.Event(), 0

    async def read() -> list[Key]:
        nonlocal tried
        tried += 1
        await stalled.wait()
        raise LedgerUnavailable

    door = keyed(read)
    callers = [asyncio.create_task(door.identify(None)) for _ in range(20)]
    await asyncio.sleep(0)
    stalled.set()
    for caller in callers:
        with pytest.raises(NotReady, match="keys cannot be read"):
            await caller
    assert tried == 1
    with pytest.raises(NotReady):
        await door.identify(None)
    assert tried == 2


async def test_a_scope_of_another_release_is_told_once_not_whenever_keys_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[Any, ...]] = []

    class Log:
        def warning(self, event: str, *, key: str, scopes: list[str]) -> None:
            told.append((event, key, scopes))

    monkeypatch.setattr(access, "log", Log())
    monkeypatch.setattr(access, "FRESH_S", 0.0)
    digest = hashlib.sha256(b"secret").hexdigest()
    key = Key(
        id="one", name="", scopes=frozenset({Scope.MODELS}), digest=digest, created_at="", revoked_at=None,
        unknown=frozenset({"appeals"}),
    )  # fmt: skip
    reads = 0

    async def read() -> list[Key]:
        nonlocal reads
        reads += 1
        return [key]

    door = keyed(read)
    assert [await door.identify("rk_one_secret") for _ in range(3)] == [key] * 3
    assert reads == 3
    with pytest.raises(InsufficientScope):
        door.require(key, [Scope.AUDIT])
    assert told == [("unknown-scope", "one", ["appeals"])]


async def test_one_request_of_another_caller_goes_on_between_many_of_one() -> None:
    went_on: list[str] = []

    async def request(caller: str, rounds: Rounds) -> None:
        await rounds.turn(caller)
        went_on.append(caller)

    rounds = Rounds()
    many = [asyncio.create_task(request("many", rounds)) for _ in range(100)]
    await asyncio.sleep(0)
    assert went_on == ["many"], "those that wait let the event loop go on"
    many[50].cancel()
    await asyncio.gather(request("one", rounds), *many, return_exceptions=True)
    assert went_on.index("one") <= 2
    assert went_on.count("many") == 99
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(StopIteration):  # it returns at once
        rounds.turn("many").send(None)
