"""The clients: `Client` blocks, `AsyncClient` awaits; both take the steps of the same operations."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from .operations import Json, Operation, Operations, Pause, Send
from .problem import checked

P = ParamSpec("P")
Value = TypeVar("Value")

TIMEOUT_S = 70.0
"""Longest wait for a response: `deadline_ms` is at most a minute."""

ATTEMPTS = 4
"""How often a request is sent before its failure is raised."""

Verify = bool | ssl.SSLContext
Operate = Callable[Concatenate[Operations, P], Operation[Value]]


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _listed(reference: str | None, filters: dict[str, str]) -> dict[str, str]:
    return filters if reference is None else {"reference": reference, **filters}


def _blocking(operation: Operate[P, Value]) -> Callable[Concatenate["Client", P], Value]:
    @wraps(operation)
    def run(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return client._run(operation(client._operations, *args, **kwargs))

    return run


def _awaiting(operation: Operate[P, Value]) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, Value]]:
    @wraps(operation)
    async def run(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return await client._run(operation(client._operations, *args, **kwargs))

    return run


class Client:
    """The service at `url`, blocking; `key` is an API key, where it asks for one.

    Every method raises `ProblemError`, or `httpx.TransportError` after the last of its `attempts`. `verify` is that of
    httpx: how certificates of a service behind TLS are checked.
    """

    def __init__(
        self, url: str, key: str | None = None, *, timeout_s: float = TIMEOUT_S, attempts: int = ATTEMPTS,
        verify: Verify = True,
    ) -> None:  # fmt: skip
        self._http = httpx.Client(base_url=url, headers=_headers(key), timeout=timeout_s, verify=verify)
        self._operations = Operations(attempts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    recourse = _blocking(Operations.recourse)
    frontier = _blocking(Operations.frontier)
    offers = _blocking(Operations.offers)
    certify = _blocking(Operations.certify)
    correct = _blocking(Operations.correct)
    submit_batch = _blocking(Operations.submit_batch)
    given = _blocking(Operations.given)
    verify = _blocking(Operations.verify)
    erase = _blocking(Operations.erase)
    audit = _blocking(Operations.audit)
    models = _blocking(Operations.models)
    model = _blocking(Operations.model)
    schema = _blocking(Operations.schema)
    predict = _blocking(Operations.predict)
    methods = _blocking(Operations.methods)
    job = _blocking(Operations.job)
    wait = _blocking(Operations.wait)
    result = _blocking(Operations.result)
    cancel = _blocking(Operations.cancel)

    def batch(self, common: Json, applicants: Iterable[Json], *, idempotency_key: str | None = None) -> Iterator[Json]:
        """The lines of a batch in the order of the applicants, once it has ended: answers, and problems of rows.

        What is submitted at the first look at a line is a job; `submit_batch` and `lines` are its two halves.
        """
        yield from self.lines(self.submit_batch(common, applicants, idempotency_key=idempotency_key)["id"])

    def lines(self, job_id: str) -> Iterator[Json]:
        """The lines of a batch, waited for, and then read as they come."""
        self.wait(job_id)
        with self._http.stream("GET", f"/jobs/{job_id}/results") as response:
            if not response.is_success:
                response.read()
            for line in checked(response).iter_lines():
                yield json.loads(line)

    def list_recourse(self, reference: str | None = None, **filters: str) -> Iterator[Json]:
        """Recourse in the ledger, newest first, page after page; filters as the query of ``GET /recourse``."""
        return self._pages("/recourse", "recourse", _listed(reference, filters))

    def list_jobs(self, **filters: str) -> Iterator[Json]:
        """Jobs, newest first, page after page; filters as the query of ``GET /jobs``."""
        return self._pages("/jobs", "jobs", filters)

    def _pages(self, path: str, name: str, params: dict[str, str]) -> Iterator[Json]:
        while True:
            page = self._run(self._operations.page(path, params))
            yield from page[name]
            if page["next_cursor"] is None:
                return
            params = {**params, "cursor": page["next_cursor"]}

    def _run(self, operation: Operation[Value]) -> Value:
        try:
            step = next(operation)
            while True:
                try:
                    result = self._take(step)
                except httpx.TransportError as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(result)
        except StopIteration as end:
            value: Value = end.value
            return value

    def _take(self, step: Send | Pause) -> httpx.Response | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        return self._http.send(_request(self._http, step))


class AsyncClient:
    """The same with methods to await, and asynchronous iterators."""

    def __init__(
        self, url: str, key: str | None = None, *, timeout_s: float = TIMEOUT_S, attempts: int = ATTEMPTS,
        verify: Verify = True,
    ) -> None:  # fmt: skip
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(key), timeout=timeout_s, verify=verify)
        self._operations = Operations(attempts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    recourse = _awaiting(Operations.recourse)
    frontier = _awaiting(Operations.frontier)
    offers = _awaiting(Operations.offers)
    certify = _awaiting(Operations.certify)
    correct = _awaiting(Operations.correct)
    submit_batch = _awaiting(Operations.submit_batch)
    given = _awaiting(Operations.given)
    verify = _awaiting(Operations.verify)
    erase = _awaiting(Operations.erase)
    audit = _awaiting(Operations.audit)
    models = _awaiting(Operations.models)
    model = _awaiting(Operations.model)
    schema = _awaiting(Operations.schema)
    predict = _awaiting(Operations.predict)
    methods = _awaiting(Operations.methods)
    job = _awaiting(Operations.job)
    wait = _awaiting(Operations.wait)
    result = _awaiting(Operations.result)
    cancel = _awaiting(Operations.cancel)

    async def batch(
        self, common: Json, applicants: Iterable[Json], *, idempotency_key: str | None = None
    ) -> AsyncIterator[Json]:
        """As `Client.batch`."""
        job = await self.submit_batch(common, applicants, idempotency_key=idempotency_key)
        async for line in self.lines(job["id"]):
            yield line

    async def lines(self, job_id: str) -> AsyncIterator[Json]:
        """As `Client.lines`."""
        await self.wait(job_id)
        async with self._http.stream("GET", f"/jobs/{job_id}/results") as response:
            if not response.is_success:
                await response.aread()
            async for line in checked(response).aiter_lines():
                yield json.loads(line)

    def list_recourse(self, reference: str | None = None, **filters: str) -> AsyncIterator[Json]:
        """As `Client.list_recourse`."""
        return self._pages("/recourse", "recourse", _listed(reference, filters))

    def list_jobs(self, **filters: str) -> AsyncIterator[Json]:
        """As `Client.list_jobs`."""
        return self._pages("/jobs", "jobs", filters)

    async def _pages(self, path: str, name: str, params: dict[str, str]) -> AsyncIterator[Json]:
        while True:
            page = await self._run(self._operations.page(path, params))
            for entry in page[name]:
                yield entry
            if page["next_cursor"] is None:
                return
            params = {**params, "cursor": page["next_cursor"]}

    async def _run(self, operation: Operation[Value]) -> Value:
        try:
            step = next(operation)
            while True:
                try:
                    result = await self._take(step)
                except httpx.TransportError as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(result)
        except StopIteration as end:
            value: Value = end.value
            return value

    async def _take(self, step: Send | Pause) -> httpx.Response | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        return await self._http.send(_request(self._http, step))


def _request(http: httpx.Client | httpx.AsyncClient, step: Send) -> httpx.Request:
    return http.build_request(step.method, step.path, headers=step.headers, params=step.params, content=step.content)
