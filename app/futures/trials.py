"""Trials: promises for a model of one half of the records, checked by a model of the other half.

Future models are bootstraps of the records that today's model was trained on, so all of them share what is peculiar to
these records, and a search finds what profits from it. The next model, trained on other records, does not share it:
boosted trees keep up to a sixth fewer promises than their bootstraps say. A trial has other records. It trains
a model and its future models on one half, answers people of neither half with them, and asks a model of the other half
whether it keeps what was promised.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Float, Int
from pydantic import ValidationError

from app.errors import ModelRefused, RecourseError, RehearsalFailed
from app.futures.recipe import Recipe, Tuned
from app.futures.records import Records, Sample, halves
from app.futures.stacks import Kind, pack
from app.futures.store import Part, open_set
from app.observability import log
from app.recourse.actions.action_set import action_set
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.black_box import BlackBox
from app.recourse.models.calibration import Retraining
from app.recourse.models.committee import FutureModels, Futures
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.solve import DEFAULT_METHOD, METHODS, solve
from app.registry.files import write_atomic
from app.registry.version import LoadedModel

TRIALS = 6
"""Models of halves that are followed by the model of the other half."""

MODELS = 20
"""Models in the search set and in the held-back set of a trial."""

PEOPLE = 12
"""Refused people who are answered in a trial."""

ASKED = (None, 0.7, 0.9)
"""Shares of future models that each of them asks for; None for the default answer."""

SECONDS = 2.0
"""For one answer."""

FEWEST, FEWEST_OF_LABEL = 500, 50
"""Records, and records of each label, without which there are no trials: a model of half of them says little about
today's."""

METHOD = METHODS[DEFAULT_METHOD]


class Trial(Part):
    """A trial, as it is kept."""

    told: tuple[float, ...]
    kept: tuple[bool, ...]
    rivals: tuple[float, ...]

    @property
    def retraining(self) -> Retraining:
        """What it says, for a calibration."""
        return Retraining(
            told=np.array(self.told, dtype=float), kept=np.array(self.kept, dtype=bool), rivals=np.array(self.rivals)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """The trials of one rehearsal; each follows from the records and the seed, but for answers that take too long."""

    loaded: LoadedModel
    records: Records
    recipe: Recipe
    tuned: Tuned
    kind: Kind
    seed: int
    folder: Path
    """Where trials are kept that are over."""

    def kept(self, index: int) -> Retraining:
        """One trial, which is run only if it is not kept."""
        path = self.folder / f"trial-{index}.json"
        try:
            found = Trial.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            found = self._run(index)
            write_atomic(path, found.model_dump_json().encode())
        return found.retraining

    def _run(self, index: int) -> Trial:
        """One trial; one whose models cannot be made or used proves nothing."""
        own, other, people = halves(self.records, self.seed, index)
        rng = np.random.default_rng([self.seed, index, 1])
        try:
            today, following, search, held_back = self._models(own, other, rng)
            promised_raw, told = self._promises(today, own, people, search, held_back)
        except (ModelRefused, RehearsalFailed) as error:
            log.warning("trial-failed", model=self.loaded.registered.name, trial=index, detail=error.sentence)
            promised_raw, told = np.zeros((0, self.records.rows_raw.shape[1])), np.zeros(0)
        if not len(told):
            return Trial(told=(), kept=(), rivals=())
        return Trial(
            told=told.tolist(),
            kept=(following.score_raw(promised_raw) >= 0.0).tolist(),
            rivals=(held_back.scores_raw(promised_raw) >= 0.0).mean(axis=0).tolist(),
        )

    def _models(
        self, own: Int[np.ndarray, "n"], other: Int[np.ndarray, "n"], rng: np.random.Generator
    ) -> tuple[BlackBox, BlackBox, FutureModels, FutureModels]:
        """A model of each half, and the two sets of future models of the first."""
        size = (len(own) + 1) // 2
        drawn = [own, other, *(own[rng.integers(len(own), size=size)] for _ in range(2 * MODELS))]
        samples = [Sample(index=i, chosen=chosen, seed=int(rng.integers(2**31))) for i, chosen in enumerate(drawn)]
        contents = self.recipe.make(self.records, samples[:2], self.tuned)
        for at in range(2, len(samples), self.recipe.block):
            contents += self.recipe.make(self.records, samples[at : at + self.recipe.block], self.tuned)
        with tempfile.TemporaryDirectory() as folder:
            today, following = (self._black_box(Path(folder), i, contents[i]) for i in range(2))
            search, held_back = (
                self._set(Path(folder) / name, contents[2 + at : 2 + at + MODELS])
                for name, at in (("search", 0), ("held_back", MODELS))
            )
            return today, following, search, held_back

    def _black_box(self, folder: Path, index: int, content: bytes) -> BlackBox:
        name = f"{index}{PurePosixPath(self.kind.manifest.file.path).suffix}"
        (folder / name).write_bytes(content)
        return self.kind.member(folder, name, content).of_columns(self.loaded.registered.columns)

    def _set(self, folder: Path, contents: Sequence[bytes]) -> FutureModels:
        stack, files = pack(self.kind, contents)
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return open_set(self.loaded.registered, self.kind, stack, len(contents), folder, files)

    # --- promises ---

    def _promises(
        self,
        today: BlackBox,
        own: Int[np.ndarray, "n"],
        people: Int[np.ndarray, "k"],
        search: FutureModels,
        held_back: FutureModels,
    ) -> tuple[Float[np.ndarray, "m p"], Float[np.ndarray, "m"]]:
        """Records that refused people are advised to become, and the share of held-back models that accept each."""
        reference = Reference(
            space=today.space, rows_raw=self.records.rows_raw[own],
            scores=today.score_raw(self.records.rows_raw[own]),
            largest_distance=self.loaded.reference.largest_distance,
        )  # fmt: skip
        rows_raw = self.records.rows_raw[people]
        refused = rows_raw[today.score_raw(rows_raw) < 0.0][:PEOPLE]
        futures = Futures(search=search, held_back=held_back, source="retrained", records="fresh")
        found = [
            (one.row_raw, one.future.probability)
            for row_raw in refused
            for one in self._answers(today, reference, futures, row_raw)
            if one.future is not None
        ]
        return (
            np.array([row_raw for row_raw, _ in found]).reshape(-1, rows_raw.shape[1]),
            np.array([told for _, told in found]),
        )

    def _answers(
        self, today: BlackBox, reference: Reference, futures: Futures, row_raw: Float[np.ndarray, "p"]
    ) -> Iterator[Counterfactual]:
        for share in ASKED:
            problem = RecourseProblem(
                black_box=today, reference=reference, futures=futures, future_validity=share,
                action_set=action_set(today.space, row_raw, rules=self.loaded.rules),
                deadline=time.monotonic() + SECONDS,
            )  # fmt: skip
            try:
                yield from solve(problem, METHOD, METHOD.params()).counterfactuals[:1]
            except RecourseError:
                continue
