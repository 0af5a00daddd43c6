"""Lenders of the past, or of some records: a model of a part of the records, and future models of it.

They are made as a rehearsal makes them today, and answer people as this model does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from app.futures.recipe import Recipe, Tuned
from app.futures.records import MOST_DRAWN, Records, Sample, samples
from app.futures.spec import Choices
from app.futures.stacks import Kind, pack
from app.futures.store import open_set
from app.recourse.actions.action_set import action_set
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import FutureModels, Futures
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.solve import DEFAULT_METHOD, METHODS, solve
from app.registry.files import write_atomic
from app.registry.version import LoadedModel

EACH_SET = 1_000
"""Indices of samples that are kept for one set."""


@dataclass(kw_only=True)
class Windows:
    """Makes models of parts of the records, each with a name."""

    loaded: LoadedModel
    records: Records
    recipe: Recipe
    tuned: Tuned
    kind: Kind
    choices: Choices
    directory: Path
    """Where models are kept until the end, for a later process to go on with."""
    first: int
    """Index of the first sample; no other model of a rehearsal has it, or one after it."""
    made: Callable[[], None]
    """Called after each model."""
    _indices: dict[str, int] = field(default_factory=dict)
    """Of the first sample of each set."""

    def model(self, name: str, window: Int[np.ndarray, "n"], number: int, seed: int) -> BlackBox:
        """The model of all records of a window, or of as many as a rehearsal draws at most.

        Parameters
        ----------
        number : of the window, less than `EACH_SET`
        seed : of what is drawn
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        index = self.first + number
        rng = np.random.default_rng([self.choices.seed, self.first, seed])
        chosen = window if len(window) <= MOST_DRAWN else np.sort(rng.choice(window, MOST_DRAWN, replace=False))
        (content,) = self._files(name, [Sample(index=index, chosen=chosen, seed=int(rng.integers(2**31)))])
        path = self.directory / f"{name}{Path(self.kind.manifest.file.path).suffix}"
        write_atomic(path, content)
        return self.kind.member(self.directory, path.name, content).of_columns(self.loaded.registered.columns)

    def drawn(
        self, name: str, window: Int[np.ndarray, "n"], count: int, weights: Float[np.ndarray, "n"] | None = None
    ) -> list[Sample]:
        """Bootstraps of the records of a window; those of another name have other seeds."""
        first = self._indices.setdefault(name, self.first + EACH_SET * (1 + len(self._indices)))
        own = Records(
            rows_raw=self.records.rows_raw[window], favourable=self.records.favourable[window],
            labels=self.records.labels, of_reference=False,
        )  # fmt: skip
        found = samples(own, self.choices.records, self.choices.seed, range(first, first + count), weights)
        return [Sample(index=one.index, chosen=window[one.chosen], seed=one.seed) for one in found]

    def trained(self, name: str, drawn: Sequence[Sample]) -> FutureModels:
        """The models of several bootstraps."""
        self.directory.mkdir(parents=True, exist_ok=True)
        stack, files = pack(self.kind, self._files(name, drawn))
        directory = self.directory / f"{name}.set"
        directory.mkdir(exist_ok=True)
        for file, content in files.items():
            write_atomic(directory / file, content)
        return open_set(self.loaded.registered, self.kind, stack, len(drawn), directory, files)

    def _files(self, name: str, drawn: Sequence[Sample]) -> list[bytes]:
        """The files of models; those that an interrupted rehearsal has made are read."""
        found: list[bytes] = []
        for first in range(0, len(drawn), self.recipe.block):
            block = drawn[first : first + self.recipe.block]
            paths = [self.directory / f"{name}-{i:04d}" for i in range(first, first + len(block))]
            if not all(path.exists() for path in paths):
                for path, content in zip(paths, self.recipe.make(self.records, block, self.tuned), strict=True):
                    write_atomic(path, content)
            found += [path.read_bytes() for path in paths]
            for _ in block:
                self.made()
        return found


def reference_of(loaded: LoadedModel, model: BlackBox, rows_raw: Float[np.ndarray, "m p"]) -> Reference:
    """Records as the reference of a model other than today's, with the scores that it gives them."""
    return Reference(
        space=loaded.registered.space, rows_raw=rows_raw, scores=model.score_raw(rows_raw),
        largest_distance=loaded.reference.largest_distance,
    )  # fmt: skip


def answered(
    loaded: LoadedModel,
    model: BlackBox,
    reference: Reference,
    people: int,
    seed: Sequence[int],
    *,
    among_raw: Float[np.ndarray, "n p"] | None = None,
    futures: Futures | None = None,
    asked: float | None = None,
) -> list[Counterfactual]:
    """Default answers of a model to some of the people whom it refuses; none for whom nothing is found.

    Parameters
    ----------
    reference : that of the model
    people : at most so many of those whom the model refuses are drawn, by `seed`
    among_raw : records of the people; those of the reference by default
    futures, asked : as in `RecourseProblem`

    Raises
    ------
    SolverFailed, ModelOutputInvalid : a solver ends without an answer, or a model gives an output outside its range
    """
    space, method = loaded.registered.space, METHODS[DEFAULT_METHOD]
    scores = reference.scores if among_raw is None else model.score_raw(among_raw)
    refused_raw = (reference.rows_raw if among_raw is None else among_raw)[scores < 0.0]
    found: list[Counterfactual] = []
    for row_raw in refused_raw[np.random.default_rng(seed).permutation(len(refused_raw))[:people]]:
        problem = RecourseProblem(
            black_box=model, reference=reference, futures=futures, future_validity=asked,
            action_set=action_set(space, row_raw, rules=loaded.rules),
        )  # fmt: skip
        found += solve(problem, method, method.params()).counterfactuals[:1]
    return found


def rows_of(loaded: LoadedModel, found: Sequence[Counterfactual]) -> Float[np.ndarray, "n p"]:
    """The raw rows of answers."""
    return np.array([one.row_raw for one in found]).reshape(-1, loaded.registered.space.p)
