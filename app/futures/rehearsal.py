"""A rehearsal: the next trainings of a model, carried out beforehand.

It can be interrupted at any moment, even by a signal that cannot be caught. Every model is written when it is made,
next to a specification that holds all that chance decides; the next rehearsal with the same choices goes on behind the
last one. All sets are installed together, at the end, in one step; until then what was there before is in use.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from pydantic import ValidationError

from app.errors import ModelRefused, RecourseError, RehearsalFailed
from app.futures.backtest import FIRST as BACKTESTED
from app.futures.backtest import Backtester, dates_in
from app.futures.check import CHANCE, Check, check
from app.futures.followers import failing
from app.futures.halves import FIRST as HALVED
from app.futures.halves import TOTAL as MODELS_OF_HALVES
from app.futures.halves import halved, is_halved
from app.futures.likeness import ASKING, Compared, compared
from app.futures.recipe import Recipe
from app.futures.records import Records, Sample, newer_records, reference_records, sample
from app.futures.spec import Choices, Material, Spec, asked_for, read_spec, recipe_of, specified
from app.futures.stacks import Kind, pack
from app.futures.store import (
    FAILED,
    RECORD,
    SPEC,
    FutureManifest,
    FuturesRecord,
    Halves,
    SetName,
    SetRecord,
    open_set,
)
from app.futures.stress import STRENGTHS, Stressed, stressed_records
from app.futures.underway import alone, noted
from app.futures.windows import Windows
from app.observability import log
from app.recourse.models.committee import ANSWERS, Backtest
from app.recourse.models.score import Output
from app.recourse.shares import percent
from app.registry.files import digest, flush_directory, inside, write, write_atomic
from app.registry.manifest import FUTURES, PARTIAL
from app.registry.version import LoadedModel, RegisteredModel, activate_successor

Progress: TypeAlias = Callable[[int, int], None]
"""Receives how many models are done, and of how many."""

MEMBERS, PACKED = "members", "packed"
"""Directories of a rehearsal: its models, and the sets as they will be installed."""

CONTRARY = 0.5
"""Share of reference records that future models must decide as today's model does, on average."""

MOST_STRESSES = 10
"""Stresses beside which none has too few models."""

ENOUGH = 10
"""Models of which more than half may not be dropped."""


def rehearse(
    model: RegisteredModel, choices: Choices, material: Material | None = None, *, progress: Progress | None = None
) -> FuturesRecord:
    """Make the future models of a version; an interrupted rehearsal with the same choices is resumed.

    Parameters
    ----------
    progress : called with the number of models made so far, and of all models to make

    Raises
    ------
    RehearsalFailed : the models cannot be made; `store.status` gives the reason, and earlier future models stay in use
    RehearsalRunning : another process is making them
    ModelUnusable : today's model cannot be loaded
    """
    material = material or Material()
    with alone(model):
        partial = model.directory / PARTIAL
        try:
            (partial / FAILED).unlink(missing_ok=True)
            loaded = model.load()
            record = _Rehearsal.begun(loaded, choices, material).run(progress or (lambda _done, _total: None))
            if activate_successor(model):
                log.info("model-activated", model=model.name)
            return record
        except OSError as error:
            failed = RehearsalFailed(f"The future models cannot be written: {error}")
            raise noted(partial, failed) from error
        except RecourseError as error:
            raise noted(partial, error) from error


@dataclass(slots=True, kw_only=True)
class _Rehearsal:
    loaded: LoadedModel
    choices: Choices
    records: Records
    recipe: Recipe
    spec: Spec
    data_sha256: str | None
    stresses: list[Stressed]
    """Each is rehearsed in all strengths, in a search set and a held-back set."""
    followed: Records
    """The records; of trees, people after them who followed an answer and failed, whom one of the stresses draws."""
    path: Path
    """CSV that the records come from."""

    @property
    def registered(self) -> RegisteredModel:
        return self.loaded.registered

    @property
    def partial(self) -> Path:
        return self.registered.directory / PARTIAL

    @property
    def kind(self) -> Kind:
        manifest = self.recipe.manifest(self.spec.tuned)
        return Kind(manifest=manifest, space=self.registered.columns.model, trust=self.registered.trust)

    # --- the specification ---

    @classmethod
    def begun(cls, loaded: LoadedModel, choices: Choices, material: Material) -> "_Rehearsal":
        """Resume the interrupted rehearsal with the same choices, or else begin a new one.

        The specification of a new rehearsal, with its tuned settings, is written to disk.
        """
        data, registered = material.data, loaded.registered
        records = reference_records(loaded) if data is None else newer_records(loaded, data)
        path = data or inside(registered.directory, registered.manifest.reference)
        data_sha256 = None if data is None else digest(data)
        asked = asked_for(loaded, choices, material, data_sha256)
        partial = registered.directory / PARTIAL
        spec = read_spec(partial)
        if spec is not None and spec.asked == asked:
            recipe = recipe_of(spec.source, loaded, records, material)
        else:
            shutil.rmtree(partial, ignore_errors=True)
            (partial / MEMBERS).mkdir(parents=True)
            spec, recipe = specified(loaded, records, choices, material, asked)
            write_atomic(partial / SPEC, spec.model_dump_json(indent=2).encode())
        # Twice as many models as without, at most.
        most = int(2 * min(spec.search, spec.held_back)) // len(STRENGTHS)
        chosen = "none" if spec.source == "supplied" or not most else choices.stress
        stresses, both = stressed_records(loaded, records, path, chosen, most), records
        if chosen == "auto" and stresses and (found := failing(loaded, records, recipe, spec, choices.seed)):
            # The last of ten is the least: high values of the third column.
            stresses, both = [*stresses[: min(most, MOST_STRESSES) - 1], found[1]], found[0]
        return cls(
            loaded=loaded, choices=choices, records=records, recipe=recipe, spec=spec, data_sha256=data_sha256,
            stresses=stresses, followed=both, path=path,
        )  # fmt: skip

    @property
    def sets(self) -> dict[SetName, range]:
        """The indices of the models in each set of future models, by the set's name."""
        first, plain = self.spec.search, self.spec.search + self.spec.held_back
        found: dict[SetName, range] = {"search": range(first), "held_back": range(first, plain)}
        if self.stresses:
            sets = len(self.stresses) * len(STRENGTHS)
            # Half as many for searches, which ask all of them: an answer shall not take longer than twice.
            middle = plain + sets * max(1, self._each(self.spec.search) // 2)
            found["stressed_search"] = range(plain, middle)
            found["stressed"] = range(middle, middle + sets * self._each(self.spec.held_back))
        return found

    def _each(self, models: int) -> int:
        """Models of one stress in one strength, where so many are plain."""
        return max(1, min(models, 2 * models // len(self.stresses)) // len(STRENGTHS))

    def _weights(self, index: int) -> Float[np.ndarray, "n"] | None:
        """How likely each record is to be drawn for a model; None where all are alike."""
        for name in ("stressed_search", "stressed"):
            if index in (indices := self.sets.get(name, range(0))):
                sets = len(self.stresses) * len(STRENGTHS)
                which, strength = divmod((index - indices.start) * sets // len(indices), len(STRENGTHS))
                return self.stresses[which].weights[strength]
        return None

    # --- the models ---

    def run(self, progress: Progress) -> FuturesRecord:
        """Make the models that are still missing, and install all sets for use."""
        dates, no_backtest = None, None
        if self.spec.source != "supplied":
            dates, no_backtest = dates_in(self.registered, self.path, self.records.favourable)
        elif self.registered.manifest.time is not None:
            no_backtest = "Models that are there already cannot be trained on the records before a date."
        backtester = self._backtester()
        total = sum(map(len, self.sets.values())) + (0 if dates is None else backtester.total)
        total += MODELS_OF_HALVES if self._is_halved else 0
        checks = {i: check for i in range(total) if (check := self._made(i)) is not None}
        progress(len(checks), total)
        for block in self._blocks():
            if not all(i in checks for i in block):
                checks.update(self._make(block))
                self._refuse_chance(checks)
                progress(len(checks), total)
        done, backtest = count(len(checks) + 1), tuple[Backtest, ...]()

        def made() -> None:
            progress(next(done), total)

        if dates is not None:
            backtester.windows.made = made
            try:
                backtest = backtester.run(dates)
            except RecourseError as error:
                # The future models themselves are there.
                log.warning("backtest-failed", model=self.registered.name, detail=error.sentence)
                no_backtest = error.sentence
        halves = self._halves(made) if self._is_halved else None
        progress(total, total)
        return self._install(checks, backtest, no_backtest, halves)

    def _backtester(self) -> Backtester:
        return Backtester(
            windows=self._windows("backtest", BACKTESTED),
            stresses=[one for one in self.stresses if one.stress.column != ANSWERS],
        )

    def _windows(self, name: str, first: int) -> Windows:
        return Windows(
            loaded=self.loaded, records=self.records, recipe=self.recipe, tuned=self.spec.tuned, kind=self.kind,
            choices=self.choices, directory=self.partial / name, first=first, made=lambda: None,
        )  # fmt: skip

    def _blocks(self) -> Iterator[range]:
        """Models that are made together, always the same ones: their last bits may depend on each other."""
        for indices in self.sets.values():
            for at in range(0, len(indices), self.recipe.block):
                yield indices[at : at + self.recipe.block]

    def _path(self, index: int) -> Path:
        suffix = PurePosixPath(self.kind.manifest.file.path).suffix
        return self.partial / MEMBERS / f"{index:05d}{suffix}"

    def _made(self, index: int) -> Check | None:
        try:
            return Check.model_validate_json(self._path(index).with_name(f"{index:05d}.check").read_bytes())
        except (OSError, ValidationError):
            return None

    def _make(self, indices: Sequence[int]) -> Iterator[tuple[int, Check]]:
        began = time.monotonic()
        weights = [self._weights(i) for i in indices]
        own = [self.records if w is None or len(w) == len(self.records.favourable) else self.followed for w in weights]
        drawn = [
            sample(records, self.choices.records, self.choices.seed, i, w)
            for i, w, records in zip(indices, weights, own, strict=True)
        ]
        contents = self.recipe.make(max(own, key=lambda one: len(one.favourable)), drawn, self.spec.tuned)
        seconds = (time.monotonic() - began) / len(indices)
        for one, content in zip(drawn, contents, strict=True):
            path = self._path(one.index)
            write_atomic(path, content)
            check = self._checked(path, content, one, seconds)
            # Last: a model without it is made again.
            write_atomic(path.with_name(f"{one.index:05d}.check"), check.model_dump_json().encode())
            yield one.index, check

    def _checked(self, path: Path, content: bytes, sample: Sample, seconds: float) -> Check:
        try:
            member = self.kind.member(path.parent, path.name, content).of_columns(self.registered.columns)
        except ModelRefused as error:
            detail = f"Future model {sample.index} cannot be used as {self.registered.name} is"
            raise RehearsalFailed(detail, faults=error.faults) from error
        if sample.index >= self.spec.search + self.spec.held_back:
            # Under stress a model may disagree with today's, and is not dropped.
            return Check(auc=CHANCE, agreement=0.0, dropped=False, seconds=seconds)
        chosen = sample.chosen[:0] if self.spec.source == "supplied" else sample.chosen
        return check(member, self.records, self.loaded.reference, chosen, seconds)

    def _refuse_chance(self, checks: dict[int, Check]) -> None:
        made = self.spec.search + self.spec.held_back
        plain = [check for i, check in checks.items() if i < made]
        dropped = sum(check.dropped for check in plain)
        if len(plain) >= min(ENOUGH, made) and 2 * dropped > len(plain):
            raise RehearsalFailed(
                f"{dropped} of {len(plain)} future models are no better than chance on records that they have not "
                "seen, or give no finite output."
            )

    # --- the end ---

    def _install(
        self,
        checks: dict[int, Check],
        backtest: tuple[Backtest, ...],
        no_backtest: str | None,
        halves: Halves | None,
    ) -> FuturesRecord:
        packed = self.partial / PACKED
        shutil.rmtree(packed, ignore_errors=True)
        sets = {name: self._pack(packed, name, indices, checks) for name, indices in self.sets.items()}
        plain = (checks[i] for name in ("search", "held_back") for i in self.sets[name])
        kept = [check for check in plain if not check.dropped]
        agreement = float(np.mean([check.agreement for check in kept]))
        if agreement < CONTRARY:
            raise RehearsalFailed(
                f"Future models decide only {percent(agreement)}% of the reference records as {self.registered.name} "
                "does; does the label say 1 for the favourable outcome?"
            )
        compared = self._compared(packed / "held_back", sets["held_back"], checks)
        digests = [pair for one in sets.values() for pair in sorted(one.digests.items())]
        record = FuturesRecord(
            created_at=datetime.now(UTC),
            name=sha256(repr(digests).encode()).hexdigest()[:16],
            model_sha256=self.registered.sha256,
            **self.spec.model_dump(include={"source", "recipe", "tuned"}),
            records=self.choices.records,
            data_sha256=self.data_sha256,
            labels=self.records.labels,
            seed=self.choices.seed,
            described=FutureManifest.of(self.kind.manifest),
            search=sets["search"],
            held_back=sets["held_back"],
            stress=tuple(one.stress for one in self.stresses) or None,
            strengths=STRENGTHS if self.stresses else (),
            stressed_search=sets.get("stressed_search"),
            stressed=sets.get("stressed"),
            backtest=backtest,
            no_backtest=no_backtest,
            halves=halves,
            rank=None if compared is None else compared.rank,
            apart=0.0 if compared is None else compared.apart,
            agreement=round(agreement, 4),
            seconds=round(sum(check.seconds for check in checks.values()), 3),
        )
        _replace(self.registered.directory, packed, record)
        shutil.rmtree(self.partial, ignore_errors=True)
        return record

    def _compared(self, directory: Path, held_back: SetRecord, checks: dict[int, Check]) -> Compared | None:
        """How today's model compares with those of a recipe of ours; None for other models and a remote model."""
        recipe_known = self.spec.source in ("retrained", "stand_in") and self.records.of_reference
        if not recipe_known or self.loaded.black_box.remote is not None:
            return None
        kept = [self._path(i) for i in self.sets["search"] if not checks[i].dropped][:ASKING]
        columns = self.registered.columns
        asking = [self.kind.member(path.parent, path.name, path.read_bytes()).of_columns(columns) for path in kept]
        files = {file: (directory / file).read_bytes() for file in held_back.digests}
        models = open_set(self.registered, self.kind, held_back.stack, held_back.models, directory, files)
        return compared(self.loaded, asking, models, self.choices.seed)

    @property
    def _is_halved(self) -> bool:
        """No models are halved that others train, that are remote or give labels, nor bootstraps of all records."""
        trained = self.spec.source in ("retrained", "stand_in") and self.records.of_reference
        drawn = self.choices.records == "fresh" and is_halved(self.choices)
        own = self.loaded.black_box
        return trained and drawn and own.remote is None and own.output is not Output.LABEL

    def _halves(self, made: Callable[[], None]) -> Halves | None:
        windows = self._windows("halves", HALVED)
        windows.made = made
        try:
            return halved(windows)
        except RecourseError as error:
            # The future models themselves are there.
            log.warning("halves-failed", model=self.registered.name, detail=error.sentence)
            return None

    def _pack(self, packed: Path, name: SetName, indices: Sequence[int], checks: dict[int, Check]) -> SetRecord:
        # A model under stress is known by its place, so none is dropped: one that is no better than chance decides as
        # the lender's would.
        kept = [i for i in indices if name in ("stressed_search", "stressed") or not checks[i].dropped]
        if 2 * len(kept) < len(indices):
            raise RehearsalFailed(
                f"Of {len(indices)} future models {len(indices) - len(kept)} are no better than chance."
            )
        stack, files = pack(self.kind, [self._path(i).read_bytes() for i in kept])
        directory = packed / name
        directory.mkdir(parents=True)
        digests = {file: write(directory / file, content) for file, content in files.items()}
        flush_directory(directory)
        return SetRecord(
            models=len(kept),
            dropped=len(indices) - len(kept),
            stack=stack,
            digests=digests,
            sizes={file: len(content) for file, content in files.items()},
        )


def _replace(directory: Path, packed: Path, record: FuturesRecord) -> None:
    """Let these be the future models of a version; readers see the old ones or the new ones."""
    futures = directory / FUTURES
    futures.mkdir(exist_ok=True)
    target = futures / record.name
    flush_directory(packed)
    if target.exists():  # the same files: in use, or installed by a rehearsal that was killed right here
        shutil.rmtree(packed)
    else:
        packed.rename(target)
    flush_directory(futures)
    write_atomic(futures / RECORD, record.model_dump_json(indent=2).encode() + b"\n")
    for other in futures.iterdir():
        if other.is_dir() and other.name != record.name:
            shutil.rmtree(other, ignore_errors=True)
