"""Promised shares of future models against what later versions kept: on request, and kept up to date by itself."""

import time
from collections import defaultdict
from typing import TypeAlias

from app.calibration.report import calibration
from app.errors import RecourseError
from app.futures.store import read_record
from app.models.models import Models
from app.observability import log
from app.pool.pool import Pool
from app.pool.turns import long_calls
from app.questions.answers import Json
from app.registry.ref import Store
from app.registry.watch import Watch
from app.settings import Settings

CALIBRATION_S = 30.0
"""Time for one model."""

WAIT_S = 3600.0
"""Longest time that a calibration in the background waits for a child."""

AGAIN_S = 3600.0
"""Seconds after which the calibration of a model is computed again: more was promised since."""

Versions: TypeAlias = tuple[tuple[str, str], ...]
"""Name and digest of every version of a model."""


class Calibrations:
    """Compares, for each model, promised shares of future models with what later versions kept, and stores corrections.

    Parameters
    ----------
    lane : pool of child processes for the calibrations that requests ask for
    aside : pool of child processes that keeps the stored corrections up to date; started with the first correction
    """

    def __init__(self, settings: Settings, store: Store, models: Models, lane: Pool, aside: Pool) -> None:
        self._automatic = settings.run_jobs
        self._store = store
        self._models = models
        self._lane = lane
        self._aside = aside
        self._watch = Watch(self._look)
        self._known: dict[str, tuple[Versions, float]] = {}

    async def of(self, model_id: str) -> Json:
        """The calibration of all versions of a model; also stores the corrections of these versions.

        Raises
        ------
        UnknownModel : no version of the model is registered
        LedgerUnavailable : the ledger cannot be read
        Overloaded, LaneCrashed, LaneTimeout : no child process was free in time, or it crashed, or it took too long
        """
        self._models.require_known(model_id)
        with long_calls():
            found: Json = await self._lane.run(calibration, self._store, model_id, timeout_s=CALIBRATION_S)
        return found

    # --- by itself ---

    def watch(self) -> None:
        """From now on, store the corrections of a model when a version of the model is registered, and once an hour."""
        if self._automatic:
            self._watch.start()

    async def close(self) -> None:
        """Stop the background search for newly registered versions."""
        await self._watch.close()

    async def _look(self) -> None:
        for model_id, versions in self._retrained().items():
            known, at = self._known.get(model_id, ((), 0.0))
            if versions != known or time.monotonic() > at + AGAIN_S:
                await self._calibrate(model_id, versions)

    def _retrained(self) -> dict[str, Versions]:
        """Models with several versions, of which at least one has made promises about future models."""
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        telling = set()
        for model in self._models.all():
            found[model.id].append((model.name, model.sha256))
            if read_record(model.directory) is not None:
                telling.add(model.id)
        return {model_id: tuple(names) for model_id, names in found.items() if model_id in telling and len(names) > 1}

    async def _calibrate(self, model_id: str, versions: Versions) -> None:
        self._aside.start()
        try:
            await self._aside.run(calibration, self._store, model_id, timeout_s=CALIBRATION_S, wait_s=WAIT_S)
        except RecourseError as error:  # such as a ledger that is not open yet
            log.info("calibration-postponed", model=model_id, detail=error.detail)
            return
        self._known[model_id] = versions, time.monotonic()
