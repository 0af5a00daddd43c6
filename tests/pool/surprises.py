"""Calls of a pool that fail as nobody foresaw, in a process of their own, whose log is on standard error."""

import asyncio
from typing import Any

from app.errors import InternalError
from app.pool.pool import Pool
from tests.pool import chores

SURPRISES: tuple[tuple[Any, ...], ...] = ((chores.stumble, "a secret"), (chores.leave,), (chores.give_nan,))

MET = "an internal error,"


async def meet_surprises() -> None:
    pool = Pool("test", 1)
    pool.start()
    for surprise in SURPRISES:
        try:
            await pool.run(*surprise, timeout_s=20)
        except InternalError:
            print(MET, await pool.run(chores.echo, "and the pool goes on", timeout_s=20))
    await pool.close()


if __name__ == "__main__":
    asyncio.run(meet_surprises())
