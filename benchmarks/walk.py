"""The walk of one answer: which files of `app/` a `POST /recourse` enters, which functions its question goes through.

Counted by `sys.setprofile`, in all threads of the server and in its child, for a request that is not the first.
"""

import asyncio
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

import httpx

import app
from app.api.examples import APPLICANT, DEMO_MODEL
from app.main import create_app
from app.settings import Settings
from benchmarks.tables import show

APP = f"{Path(app.__file__).parent}/"
READY_S = 120.0

BODY = {"model": DEMO_MODEL, "applicant": APPLICANT, "deadline_ms": 60_000}

ROUTE, SENT = "questions/route.py", "pool/child.py:Child.call"
"""Where a question leaves the framework, and the server."""

BEGUN, CORE = "pool/serve.py:_answer", "recourse/solve.py"
"""Where it begins in the child, and reaches the core."""

Called = dict[str, list[str]]
"""Functions of `app/`, as ``file:name``, each with those that it was first called through."""

_chains: dict[CodeType, list[str]] | None = None
"""None while nothing is noted."""


def _note(frame: FrameType, event: str, _arg: object) -> None:
    if _chains is not None and event == "call" and frame.f_code not in _chains and _is_ours(frame.f_code):
        outer, chain = frame.f_back, []
        while outer is not None:
            if _is_ours(outer.f_code):
                chain.append(_named(outer.f_code))
            outer = outer.f_back
        _chains[frame.f_code] = chain[::-1]


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(APP)


def _named(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(APP)}:{code.co_qualname}"


def begin(*, deadline_s: float = 0.0) -> None:  # noqa: ARG001 - as a pool calls it
    """Note from now on what this process calls."""
    global _chains
    _chains = {}
    sys.setprofile(_note)


def end(*, deadline_s: float = 0.0) -> Called:  # noqa: ARG001
    """What was called since `begin`."""
    global _chains
    sys.setprofile(None)
    found, _chains = _chains or {}, None
    return {_named(code): chain for code, chain in found.items()}


async def walked() -> tuple[Called, Called]:
    """What the server and its child call."""
    threading.setprofile(_note)
    with tempfile.TemporaryDirectory() as state:
        served = create_app(Settings(state_dir=Path(state), lanes_sync=1, run_jobs=False))
        pool = served.state.service._lane
        transport = httpx.ASGITransport(served)
        async with (
            served.router.lifespan_context(served),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):
            async with asyncio.timeout(READY_S):
                while (await client.get("/health/ready")).status_code != httpx.codes.OK:
                    await asyncio.sleep(0.1)
            (await client.post("/recourse", json=BODY)).raise_for_status()
            await pool.run(begin, timeout_s=READY_S)
            begin()
            answer = await client.post("/recourse", json=BODY)
            server = end()
            child: Called = await pool.run(end, timeout_s=READY_S)
            answer.raise_for_status()
    return server, child


def files(called: Called) -> set[str]:
    """The files of some functions."""
    return {name.partition(":")[0] for name in called}


def passed(server: Called, child: Called) -> list[str]:
    """The functions that a question goes through, from its route to the core."""
    sent, solved = server[SENT], next(chain for name, chain in child.items() if name.startswith(CORE))
    start = next(i for i, name in enumerate(sent) if name.startswith(ROUTE))
    return [*sent[start:], SENT, *solved[solved.index(BEGUN) :]]


def table() -> None:
    """How many files and functions of `app/` one answer enters, and how many its question goes through."""
    server, child = asyncio.run(walked())
    rows = [(name, files(called), set(called)) for name, called in (("server", server), ("child", child))]
    rows.append(("together", files(server) | files(child), set(server) | set(child)))
    head = ("process", "files", "functions")
    show("Walk: POST /recourse on the demo", head, [(name, *map(str, map(len, some))) for name, *some in rows])
    print(f"From the route to the core: {' → '.join(passed(server, child))}")
