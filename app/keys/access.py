"""Access control and rate limits."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address

from app.errors import InsufficientScope, InvalidKey, KeyRequired, Misdirected, NotReady, Open, TooManyRequests
from app.keys.keys import NOBODY, Key, Keys, parts
from app.keys.scopes import Scope
from app.ledger.recorder import Recorder
from app.observability import log
from app.settings import Settings

_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")

FRESH_S = 1.0
"""Keys are read again after this time; a revoked key works no longer than that."""

UNREADABLE = "The API keys cannot be read, so no request can be authenticated."

WINDOW_S = 60.0
"""Rates are requests in this time."""

RATE_WITH_KEYS = 6000
"""Default limit of requests per `WINDOW_S` of one caller, where keys are required."""

MOST_CALLERS = 10_000
"""Callers whose rates are kept; the least recent one is dropped."""


def refuse_open(settings: Settings, any_key: Callable[[], bool]) -> None:
    """Raise `Open` if other machines could use the service without a key.

    `any_key` returns whether a key exists; it is called only if the result depends on it.
    """
    if not _is_public(settings):
        return
    if settings.auth == "off":
        raise Open(
            f"RECOURSE_AUTH=off is for loopback addresses only; this service is reached at {_address(settings)}."
        )
    if settings.auth == "auto" and not any_key():
        raise Open(
            f"There is no API key, and this service is reached at {_address(settings)}. Create a key with `recourse "
            "keys create`, or set RECOURSE_AUTH=required. If only this machine reaches it, as in a container whose "
            "port is published on 127.0.0.1, set RECOURSE_PUBLISHED_ON=127.0.0.1."
        )


def _is_public(settings: Settings) -> bool:
    return not _is_loopback(_address(settings))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _host_name(host: str) -> str:
    """The name or address in a header Host, in lower case; empty if it is neither."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found["address"] or found["name"]).lower()


def _address(settings: Settings) -> str:
    return settings.published_on or settings.host


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate limit of one caller, and how many requests are left to the caller."""

    limit: int
    """Requests per `WINDOW_S`."""
    left: int
    """Requests left now."""
    full_s: float
    """Time until all of them are left again."""


class Rounds:
    """Lets one request of each caller proceed in each iteration (round) of the event loop.

    So no caller delays the others: reading and checking a request is one step of the loop, and a hundred requests that
    one caller sends at once would otherwise be a hundred steps in a row.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """For each caller whose request went on in this round, those that go on in the next ones."""

    async def turn(self, caller: str) -> None:
        """Wait for this caller's turn: in each round of the event loop, one request of each caller goes on."""
        loop = asyncio.get_running_loop()
        if (waiting := self._waiting.get(caller)) is not None:
            turn: asyncio.Future[None] = loop.create_future()
            waiting.append(turn)
            await turn
            return
        self._waiting[caller] = deque()
        loop.call_soon(self._next, caller)

    def _next(self, caller: str) -> None:
        waiting = self._waiting[caller]
        # The client of a cancelled one has left.
        while waiting and waiting[0].done():
            waiting.popleft()
        if not waiting:
            del self._waiting[caller]
            return
        waiting.popleft().set_result(None)
        asyncio.get_running_loop().call_soon(self._next, caller)


class Access:
    """Checks the key, scope, host and rate of each request to this process; used from one event loop."""

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        self._settings = settings
        self._is_public = _is_public(settings)
        self._recorder = recorder
        self._keys: dict[str, Key] = {}
        self._read_at = -FRESH_S
        self._failed_at = -FRESH_S
        self._reading = asyncio.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}
        """Requests left for each caller, and when that was; ordered by last request."""
        self.rounds = Rounds()

    async def identify(self, offered: str | None) -> Key | None:
        """The stored key to which the text `offered` of a request belongs; None if the service needs no key.

        Raises
        ------
        KeyRequired : the request has no such text
        InvalidKey : the key is unknown or revoked, or its secret is wrong
        NotReady : the keys cannot be read now
        """
        if self._settings.auth != "off":
            await self._refresh()
        if self._open:
            return None
        if offered is None:
            raise KeyRequired
        key_id, secret = parts(offered)
        key = self._keys.get(key_id, NOBODY)
        if not key.opens_with(secret, datetime.now(UTC)) or key is NOBODY or key.revoked_at is not None:
            raise InvalidKey
        return key

    def require(self, key: Key | None, scopes: Collection[Scope]) -> None:
        """Raise `InsufficientScope` unless the key has at least one of the scopes; a request without a key passes."""
        if key is not None and key.scopes.isdisjoint(scopes):
            names = sorted(scopes)
            wanted = f"the scope {names[0]}" if len(names) == 1 else f"one of the scopes {', '.join(names)}"
            raise InsufficientScope(f"This endpoint needs a key with {wanted}.", scopes=names)

    def require_own_host(self, hosts: Sequence[str], arrived_at: str) -> None:
        """Raise `Misdirected` if a request without a key names a host that may not be this machine.

        A web page can make its own name resolve to this machine (DNS rebinding); then the browser lets the page read
        every answer. A page cannot do so with the names that this method accepts.

        Parameters
        ----------
        hosts : values of all Host headers; an empty list passes, since it is no browser's: browsers send a Host header
        arrived_at : the address of this machine at which the request arrived
        """
        if not hosts:
            return
        own = {"localhost", arrived_at, self._settings.host, _address(self._settings)}
        name = _host_name(hosts[0]) if len(hosts) == 1 else ""
        if not name or not (name in own or _is_loopback(name)):
            raise Misdirected(
                "This service requires no key, so there must be one header Host, with localhost, a loopback address "
                "such as 127.0.0.1, or the address of this service. For other names, create a key with `recourse keys "
                "create`."
            )

    def count(self, caller: str) -> Rate | None:
        """Count one request of a caller, and return the caller's rate; None if there is no limit.

        Raises `TooManyRequests` if the caller has no request left.
        """
        limit = self._settings.rate_limit
        if limit is None:
            limit = 0 if self._open else RATE_WITH_KEYS
        if not limit:
            return None
        now = time.monotonic()
        left, then = self._buckets.pop(caller, (float(limit), now))
        left = min(float(limit), left + (now - then) * limit / WINDOW_S)
        allowed = left >= 1.0
        left -= allowed
        self._buckets[caller] = (left, now)
        if len(self._buckets) > MOST_CALLERS:
            del self._buckets[next(iter(self._buckets))]
        rate = Rate(limit=limit, left=int(left), full_s=(limit - left) * WINDOW_S / limit)
        if not allowed:
            raise TooManyRequests(retry_after_s=(1.0 - left) * WINDOW_S / limit, limit=limit, full_s=rate.full_s)
        return rate

    @property
    def _open(self) -> bool:
        """Whether requests without a key are answered. With `auto`, any key ends that, even a revoked one."""
        if self._settings.auth == "auto":
            return not (self._keys or self._is_public)
        return self._settings.auth == "off"

    async def _refresh(self) -> None:
        if (asked := time.monotonic()) - self._read_at < FRESH_S:
            return
        async with self._reading:
            if (began := time.monotonic()) - self._read_at < FRESH_S:
                return  # another request has just read them
            if self._failed_at > asked:
                # Another request has just failed. If all that wait tried in turn, the last would wait for hours.
                raise NotReady(UNREADABLE)
            try:
                found = await self._recorder.run(lambda engine: Keys(engine).list())
            except NotReady:
                self._failed_at = time.monotonic()
                raise NotReady(UNREADABLE) from None
            for key in found:
                if key.unknown and key.id not in self._keys:
                    log.warning("unknown-scope", key=key.id, scopes=sorted(key.unknown))
            self._keys = {key.id: key for key in found}
            self._read_at = began
