"""Future models of registered versions: jobs that make them, on request or where a label is there to train on."""

import asyncio
import csv
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict

from app.errors import Fault, InvalidRequest, ModelUnusable, RecourseError, RehearsalFailed, UnknownModel
from app.futures.spec import Material, choices_of, possible_sources
from app.futures.store import can_have_futures, status
from app.futures.stress import along
from app.futures.underway import abandon, begin, give_up, underway
from app.jobs.job import Job
from app.jobs.jobs import Jobs
from app.jobs.kinds import FUTURES
from app.models.models import Models
from app.observability import log
from app.questions.answers import Json
from app.recourse.models.committee import BASE_RATE, OWN_SCORE
from app.registry.files import inside
from app.registry.ref import model_payload
from app.registry.reference import read_reference
from app.registry.version import RegisteredModel, activate_successor
from app.registry.watch import Watch
from app.settings import Settings

REHEARSAL_S = 12 * 3600.0
"""Time for one attempt to make the future models of a version; what it has made is kept."""

CANCELLED = "The rehearsal was cancelled. Start it again with the same choices, and it goes on where it was."

LOST = "The rehearsal was interrupted. Start it again with the same choices, and it goes on where it was."


class Rehearsals:
    """Starts the jobs that make future models."""

    def __init__(self, settings: Settings, models: Models, jobs: Jobs) -> None:
        self._automatic = settings.rehearse == "auto" and settings.run_jobs
        self._models = models
        self._jobs = jobs
        self._watch = Watch(self._look)
        self._refused: set[str] = set()
        self._silent: set[str] = set()
        """Versions whose future models seemed on their way at the last look, though nothing was to make them."""

    async def start(self, name: str, changes: Mapping[str, object]) -> Job:
        """Start a job that makes the future models of a version.

        Parameters
        ----------
        changes : by name, choices that replace those of the manifest

        Raises
        ------
        UnknownModel : there is no such version
        ModelUnusable : the version cannot be used
        ModelQuarantined, DailyBudgetSpent : the model is in quarantine, or the key's budget for today is spent
        InvalidRequest : the column of a stress does not exist, has no order, or has a single value
        RehearsalFailed : no source can make future models, or the directory of the version cannot be written
        NotReady : the job store cannot be reached
        """
        model = self._models.find(name, include_inactive=True)
        choices = choices_of(model, **changes)
        possible_sources(model.manifest, choices, Material())
        for i, stress in enumerate(() if isinstance(choices.stress, str) else choices.stress):
            if stress.column not in (OWN_SCORE, BASE_RATE):
                place = f"/stress/{i}" if isinstance(changes.get("stress"), list | tuple) else "/stress"
                await asyncio.to_thread(_require_column, model, stress.column, f"{place}/column")
        await self._models.admit(model)
        return await self._submit(model, asdict(choices))

    async def _submit(self, model: RegisteredModel, choices: Json) -> Job:
        try:
            begin(model)
        except OSError as error:
            raise RehearsalFailed(f"The directory of {model.name} cannot be written: {error.strerror}") from error
        payload = {"model": model_payload(self._models.ref(model)), "choices": choices}
        try:
            return await self._jobs.submit(FUTURES, payload, timeout_s=REHEARSAL_S, about=model.name)
        except RecourseError:
            abandon(model)
            raise

    def ended(self, name: str, sentence: str) -> None:
        """Note in `sentence` why the job for a version's future models failed; `status` then says `failed`."""
        with suppress(UnknownModel, ModelUnusable):
            give_up(self._models.find(name, include_inactive=True), sentence)

    # --- by itself ---

    def watch(self) -> None:
        """Begin to watch for active versions that have a label but no future models, and make future models of each."""
        if self._automatic:
            self._watch.start()

    async def close(self) -> None:
        """Stop watching for versions without future models."""
        await self._watch.close()

    async def _look(self) -> None:
        await self._jobs.opened()  # or the first job would wait for the second look
        silent, self._silent = self._silent, set()
        for model in self._models.all():
            state = status(model)["status"]
            if state == "pending":
                with suppress(RecourseError):  # such as a job store that is lost
                    await self._settle(model, silent)
            elif model.succeeds and state == "ready" and activate_successor(model):
                # Its rehearsal was killed right before.
                log.info("model-activated", model=model.name)
            elif wants_futures(model) and model.name not in self._refused:
                await self._start(model)

    async def _settle(self, model: RegisteredModel, silent: Collection[str]) -> None:
        """End a rehearsal that no process carries out and no job will, such as one whose job was abandoned."""
        jobs = await self._jobs.about(model.name)
        if underway(model) or not all(job.status.finished for job in jobs):
            return
        self._silent.add(model.name)
        # Between `begin` and the job of another server there may be a look, not two.
        if model.name in silent:
            if not jobs:
                abandon(model)
            give_up(model, LOST)

    async def _start(self, model: RegisteredModel) -> None:
        try:
            job = await self.start(model.name, {})
            log.info("rehearsal-started", model=model.name, job=job.id)
        except RehearsalFailed as error:
            self._refused.add(model.name)
            log.warning("rehearsal-refused", model=model.name, detail=error.detail)
        except RecourseError as error:  # such as a job store that is lost
            log.info("rehearsal-postponed", model=model.name, detail=error.detail)


def _require_column(model: RegisteredModel, column: str, pointer: str) -> None:
    try:
        path = inside(model.directory, model.manifest.reference)
        rows_raw, faults = read_reference(path, model.space.features)
        if rows_raw is None:
            raise ValueError(faults)
        along(model.space.features, rows_raw, path, column)
    except RehearsalFailed as error:
        raise InvalidRequest(faults=[Fault(pointer, error.detail)]) from error
    except (OSError, ValueError, csv.Error) as error:
        raise ModelUnusable(f"The reference records of {model.name} cannot be read.") from error


def wants_futures(model: RegisteredModel) -> bool:
    """Whether the server should now make future models of a version, although nobody asked for them."""
    return (model.active or model.succeeds) and can_have_futures(model) and status(model)["status"] == "none"
