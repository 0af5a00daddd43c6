"""How many records the models may be asked about for each API key in a day; many answers suffice to rebuild a model."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import sqlalchemy as sa

from app.closing import pause
from app.errors import DailyBudgetSpent, NotReady
from app.keys.keys import asking
from app.keys.spent_rows import Spent, SpentRows
from app.ledger.recorder import Recorder
from app.metrics import Metrics
from app.observability import log

WRITE_S = 1.0
"""Pause between two writes: what was spent in between is lost if the process is killed."""


class DailyBudgets:
    """Counts, for each API key and day, the records that models are asked about; used from one event loop.

    Parameters
    ----------
    default : most records per day for a key that has no budget of its own; 0 for no limit
    """

    def __init__(self, default: int, recorder: Recorder, metrics: Metrics) -> None:
        self._default = default
        self._recorder = recorder
        self._metrics = metrics
        self._known: dict[Spent, int] = {}
        """What the database says, and what was spent since."""
        self._unwritten: Counter[Spent] = Counter()
        self._writing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def require(self) -> None:
        """Raise `DailyBudgetSpent` if the key of the current request has no budget left today (UTC).

        Raises `NotReady` if the database cannot be asked what is left.
        """
        key = asking.get()
        if key is None or not (limit := self._default if key.model_rows is None else key.model_rows):
            return
        now = datetime.now(UTC)
        spent = await self._spent((key.id, _day(now)))
        self._metrics.budget(key.id, spent / limit)
        if spent >= limit:
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
            detail = f"This key has used its {limit:,} records of models for today (UTC)."
            raise DailyBudgetSpent(detail, retry_after_s=(midnight - now).total_seconds())

    def spend(self, key: str | None, rows: int) -> None:
        """Count `rows` more records that a model was asked about for a key; exceeding the budget is no error here."""
        if key is None or not rows:
            return
        name = key, _day(datetime.now(UTC))
        self._unwritten[name] += rows
        if name in self._known:
            self._known[name] += rows
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def close(self) -> None:
        """Write the counts that are not in the database yet, and stop counting."""
        self._closing.set()
        if self._writing is not None:
            await self._writing

    async def _spent(self, name: Spent) -> int:
        if name not in self._known:
            stored = await self._recorder.run(lambda engine: SpentRows(engine).spent(*name))
            # Days that are over need not be known.
            self._known = {known: count for known, count in self._known.items() if known[1] == name[1]}
            self._known[name] = stored + self._unwritten[name]
        return self._known[name]

    async def _write(self) -> None:
        while self._unwritten:
            rows, self._unwritten = self._unwritten, Counter()
            try:
                totals = await self._recorder.run(partial(_spend, rows))
                # Other servers spend from the same budgets.
                self._known |= {name: total + self._unwritten[name] for name, total in totals.items()}
            except NotReady as error:
                self._unwritten.update(rows)
                log.warning("spent-rows-not-written", reason=error.detail)
                if self._closing.is_set():
                    return
            if not self._closing.is_set():
                await pause(self._closing, WRITE_S)


def _spend(rows: Mapping[Spent, int], engine: sa.Engine) -> dict[Spent, int]:
    return SpentRows(engine).spend(rows)


def _day(moment: datetime) -> str:
    return moment.date().isoformat()
