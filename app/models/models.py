"""The registered models, and the child processes that ask them."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.errors import Fault, InsufficientScope, InvalidRequest, ModelUnusable, UnknownModel
from app.futures.store import status
from app.keys.daily_budgets import DailyBudgets
from app.keys.keys import asking, asking_id
from app.metrics import Metrics
from app.models import tasks
from app.observability import log
from app.pool.pool import Pool
from app.pool.quarantine import Quarantine
from app.pool.serve import Written
from app.questions.answers import Json, plain
from app.questions.frame import identity
from app.recourse.features import Change, Feature, Table
from app.recourse.models.score import Output
from app.registry.ref import ModelRef, Store
from app.registry.version import RegisteredModel
from app.settings import Settings
from app.store.timestamps import timestamp

UNREADABLE = "the directory of models (RECOURSE_MODELS_STORE) cannot be read"

EMPTY = "no model is registered in the directory of models (RECOURSE_MODELS_STORE), which may not be mounted"

LATE = "{name} is not active yet, as its future models were not made: {why} Until then the version before answers."

NONE_ACTIVE = "No model is active: each is retired, or waits for `recourse models activate`."


class Models:
    """The registered models of one store, and the child processes (`lane`) that load and ask them."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        lane: Pool,
        metrics: Metrics,
        budgets: DailyBudgets,
        quarantine: Quarantine,
    ) -> None:
        self._settings = settings
        self._store = store
        self._registry = store.open()
        self._lane = lane
        self._metrics = metrics
        self._budgets = budgets
        self._quarantine = quarantine

    def find(self, name: str, *, pointer: str | None = None, include_inactive: bool = False) -> RegisteredModel:
        """The version called `name`: an id stands for the newest active version, `id@version` for this one.

        An inactive version is found only by its full name, and only with `include_inactive`.

        Raises `UnknownModel`, with a fault at `pointer` if a pointer is given; `ModelUnusable` where the version is
        broken or the store cannot be read; `InsufficientScope` where the key of the current request may not ask the
        model.
        """
        _require(name)
        try:
            return self._registry.find(name, include_inactive=include_inactive)
        except (UnknownModel, OSError) as error:
            self._require_store()
            if isinstance(error, OSError):
                raise
            # The log names the directory; a client does not learn it.
            detail = f'The model "{name[:100]}" is not registered: {EMPTY}.' if self._empty() else error.detail
            faults = [] if pointer is None else [Fault(pointer, "is not the name of an active model")]
            raise UnknownModel(detail, faults=faults, **error.facts) from None

    def version(self, model_id: str, name: str | None) -> RegisteredModel:
        """The version called `name`, active or not; the newest active version of the model where `name` is None.

        Raises `UnknownModel` and `ModelUnusable` where there is no such version; `InvalidRequest` where `name` is a
        version of another model.
        """
        if name is None:
            return self.find(model_id)
        if name.partition("@")[0] != model_id:
            raise InvalidRequest(faults=[Fault("/model", "is not a version of the model that was asked then")])
        return self.find(name, pointer="/model", include_inactive=True)

    def require_known(self, model_id: str) -> None:
        """Raise `UnknownModel` if no version of `model_id` is registered.

        Raises `ModelUnusable` where the store cannot be read; `InsufficientScope` where the key of the current request
        may not ask the model.
        """
        _require(model_id)
        self._require_store()
        if all(model.id != model_id for model in self._registry.list()):
            raise UnknownModel(f'No version of "{model_id[:100]}" is registered.')

    def active(self) -> int:
        """Number of versions that answer applicants."""
        return sum(model.active for model in self._registry.list())

    def warnings(self) -> list[str]:
        """A sentence on each active version that cannot be used, and on each whose future models cannot be made.

        If no version is active, one sentence that says so.
        """
        if not self.active() and not self.problems():
            return [NONE_ACTIVE]
        broken = [version.error.detail for version in self._registry.broken() if version.active]
        # Faults that only loading finds are known once a child has tried.
        lost = self._lane.problems
        unloaded = [model.distrusted or lost.get(model.name, "") for model in self._registry.list() if model.active]
        return broken + [sentence for sentence in unloaded if sentence] + self._late_successors()

    def _late_successors(self) -> list[str]:
        """Versions whose future models could not be made, so that the version before goes on answering."""
        waiting = [(model.name, status(model)) for model in self._registry.list() if model.succeeds]
        return [LATE.format(name=name, why=found["detail"]) for name, found in waiting if found["status"] == "failed"]

    def problems(self) -> str:
        """The sentence that says why no applicant can be answered; empty where applicants can be answered."""
        if not self._readable():
            return UNREADABLE
        if self.active():
            return ""
        if self._registry.broken():
            return "none of the registered models can be used"
        # Versions that are retired or wait are there on purpose, and the ledger can still be read.
        return "" if self._registry.list() else EMPTY

    def tell_problems(self) -> None:
        """Log why no applicant can be answered, and where models were looked for."""
        if reason := self.problems():
            log.error("no-models", reason=reason, directory=str(self._settings.models_store.absolute()))

    def _empty(self) -> bool:
        return not self._registry.list() and not self._registry.broken()

    def _readable(self) -> bool:
        return os.access(self._settings.models_store, os.R_OK | os.X_OK)

    def _require_store(self) -> None:
        if not self._readable():
            raise ModelUnusable(f"No model can be looked for: {UNREADABLE}.")

    def ref(self, model: RegisteredModel) -> ModelRef:
        """The `ModelRef` by which child processes and jobs identify the model."""
        return ModelRef.of(self._store, model)

    async def admit(self, model: RegisteredModel) -> None:
        """Raise `ModelQuarantined` or `DailyBudgetSpent` if either would make a job about this model fail at once."""
        self._quarantine.require(model.name)
        await self._budgets.require()

    async def ask(
        self, model: RegisteredModel, work: Callable[..., Any], *args: Any, timeout_ms: int | None = None
    ) -> Any:
        """Run the function `work` about a model in a child process, and return its result.

        All records that `work` asks the model about count towards the daily budget of the caller's API key. The time
        limit `timeout_ms` excludes the time in which the child loads the model for the first time.

        Raises `DailyBudgetSpent` where the key of the current request has no records left for today; `Overloaded`,
        `LaneCrashed` or `LaneTimeout` where the child processes are busy, crash or run out of time.
        """
        await self._budgets.require()
        found = await self._run(model, work, *args, timeout_ms=timeout_ms)
        facts = found.facts if isinstance(found, Written) else found
        self._budgets.spend(asking_id(), self._metrics.asked(model.id, facts))
        return found

    async def _run(
        self, model: RegisteredModel, work: Callable[..., Any], *args: Any, timeout_ms: int | None = None
    ) -> Any:
        timeout_s = (timeout_ms or self._settings.default_deadline_ms) / 1000.0
        ref = self.ref(model)
        return await self._lane.run(work, ref, *args, timeout_s=timeout_s, need=tasks.need_of(ref))

    def all(self) -> list[RegisteredModel]:
        """Every usable version, active or not."""
        return self._registry.list()

    def summaries(self) -> list[Json]:
        """The descriptions of all versions that the key of the request may ask.

        Raises `ModelUnusable` where the store cannot be read.
        """
        self._require_store()
        key = asking.get()
        return [_summary(model) for model in self._registry.list() if key is None or key.may_ask(model.id)]

    def summary(self, name: str) -> Json:
        """The description of one version: the newest active version of a model id, or any version by its full name."""
        return _summary(self.find(name, include_inactive=True))

    def require_answering(self, name: str) -> None:
        """Raise `UnknownModel`, `ModelQuarantined` or `ModelUnusable` unless the version can answer requests."""
        model = self.find(name)
        self._quarantine.require(model.name)
        if reason := model.distrusted or self._lane.problems.get(model.name):
            raise ModelUnusable(reason)

    async def schema(self, name: str) -> Json:
        """The features and rules of a model, and sample records that it refuses.

        Raises `UnknownModel`, `ModelUnusable` and `InsufficientScope` where the model cannot be asked; `Overloaded`,
        `LaneCrashed` or `LaneTimeout` where child processes cannot read the samples.
        """
        model = self.find(name)
        # Their scores are known: no model is asked.
        samples = await self._run(model, tasks.samples)
        return {
            "model": plain(identity(model)),
            "features": [_describe(feature) for feature in model.space.schema],
            "rules": [rule.text for rule in model.rules],
            "sample": samples[0] if samples else None,
            "samples": samples,
        }

    async def predict(self, name: str, records: Sequence[Mapping[str, object]]) -> Json:
        """The model's decisions about records, in the order of the records.

        Raises `InvalidRecord` with the faults of all records.
        """
        model = self.find(name)
        rows_raw = model.space.read_many(records, pointer="/records")
        predictions = await self.ask(model, tasks.predict, rows_raw)
        names = [feature.name for feature in model.space.schema if feature.derived is not None]
        whole = [model.space.record(row_raw) for row_raw in rows_raw]
        derived = [{name: record[name] for name in names} for record in whole]
        return {"model": plain(identity(model)), "predictions": predictions, "derived": derived}


def _require(name: str) -> None:
    """Raise `InsufficientScope` unless the key of this context may ask a model, whether there is one or not."""
    key, model_id = asking.get(), name.partition("@")[0]
    if key is not None and key.models is not None and not key.may_ask(model_id):
        models = ", ".join(sorted(key.models))
        raise InsufficientScope(f"This key may ask only the models {models}.", scopes=sorted(key.scopes))


def _summary(model: RegisteredModel) -> Json:
    manifest = model.manifest
    return {
        **plain(identity(model)),
        "title": manifest.title,
        "titles": manifest.titles,
        "description": manifest.description,
        "active": model.active,
        "registered_at": timestamp(model.registered_at),
        "features": len(manifest.features),
        "output": manifest.output.value,
        "threshold": None if manifest.output is Output.LABEL else manifest.threshold,
        "better": manifest.better if manifest.output is Output.POINTS else None,
        "futures": status(model),
    }


def _describe(feature: Feature) -> Json:
    derived = feature.derived
    return {
        "name": feature.name,
        "type": feature.type.value,
        "label": feature.title,
        "unit": feature.unit,
        "min": feature.min,
        "max": feature.max,
        "step": feature.step,
        "decimals": feature.decimals,
        "categories": None if feature.is_number else [level for level in feature.levels if level is not None],
        "level_names": dict(feature.level_names),
        "words": {
            tag: {"label": words.label, "unit": words.unit, "levels": dict(words.levels)}
            for tag, words in feature.words.items()
        },
        "change": (Change.NONE if feature.is_fixed else feature.change).value,
        "cost": feature.cost,
        "spread": None if feature.is_group else feature.scale,
        "missing": feature.missing is not None,
        "special": {f"{code:.15g}": meaning for code, meaning in feature.special.items()},
        "derived": f"a table of {derived.from_}" if isinstance(derived, Table) else derived,
        "terms": feature.terms,
        "better": feature.better and feature.better.value,
        "protected": feature.protected,
        "moves_with_time": None if feature.moves_with_time is None else feature.moves_with_time.per_year,
        "advice": plain(feature.advice),
        "provide_cost": feature.provide_cost if feature.provide else None,
        "takes": plain(feature.takes),
        "max_change": None if feature.max_change is None else plain(feature.max_change),
        "least_change": feature.least_change,
    }
