"""The question: one applicant, one model, what the person can change."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
from annotated_types import Interval
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.sentences import name_text, number_text
from app.recourse.features import FeatureSpace
from app.recourse.input_part import InputPart
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import Futures
from app.recourse.models.linear import WeightMoments
from app.recourse.models.score import LOGIT_LIMIT, favourable
from app.recourse.numerics.linalg import unique_rows

MOST_NEIGHBOURS = 1500
"""Reference records whose distances to each other give `Reference.median_distances`."""

Found = TypeVar("Found")

PRIOR_RECORDS = 5.0
"""Records of the mean score that count in each weight of `Reference.weights`."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Reference records of a model, with figures computed from them once, at registration."""

    space: FeatureSpace
    rows_raw: Float[np.ndarray, "n p"]
    scores: Float[np.ndarray, "n"]
    """The model's score of each record."""
    largest_distance: float
    """Largest L2 distance between two encoded records; the unit of sampling radii."""
    weight_moments: WeightMoments | None = None
    """Of the model retrained on random halves; None where it was registered without true outcomes."""

    @cached_property
    def X(self) -> Float[np.ndarray, "n d"]:
        """Encoded reference records."""
        return self.space.encode(self.rows_raw)

    @cached_property
    def _compared(self) -> dict[tuple[int, float], tuple[object, Any]]:
        return {}

    def once_compared(self, form: object, offset: float, compare: Callable[[], Found]) -> Found:
        """The result of `compare`, kept so that it is called once for each pair of `form` and `offset`.

        `form` is told apart by identity, not by value; it is an object such as a model's weights.
        """
        if (key := (id(form), offset)) not in self._compared:
            # The form is kept, so that its id stays its own.
            self._compared[key] = form, compare()
        found: Found = self._compared[key][1]
        return found

    @cached_property
    def favourable(self) -> Int[np.ndarray, "k"]:
        """Indices of the reference records that the model accepts."""
        return np.flatnonzero(favourable(self.scores))

    @cached_property
    def rows_favourable_raw(self) -> Float[np.ndarray, "k p"]:
        """Raw rows of the reference records that the model accepts."""
        return self.rows_raw[self.favourable]

    @cached_property
    def X_favourable(self) -> Float[np.ndarray, "k d"]:
        """Encoded reference records that the model accepts."""
        return self.X[self.favourable]

    @cached_property
    def squares_favourable(self) -> Float[np.ndarray, "k"]:
        """Squared length of each row of `X_favourable`, for fast distances."""
        return np.asarray((self.X_favourable**2).sum(axis=1))

    @cached_property
    def accepted_levels(self) -> Mapping[int, Int[np.ndarray, "k"]]:
        """Number of accepted records at each level of a categorical feature, by the feature's index."""
        return {
            g: np.bincount(self.rows_favourable_raw[:, g].astype(int), minlength=len(self.space.features[g].levels))
            for g in self.space.groups.tolist()
        }

    @cached_property
    def weights(self) -> Float[np.ndarray, "d"]:
        """Weights of a linear model fitted to the scores, one for each encoded column.

        All numbers are fitted together; the weight of each level is the mean of what the numbers leave unexplained.
        Means are shrunk to 0 as if there were `PRIOR_RECORDS` further records of mean score.
        """
        scores = np.clip(np.nan_to_num(self.scores), -LOGIT_LIMIT, LOGIT_LIMIT)
        w, columns = np.zeros(self.space.d), self.space.numeric_columns
        X = self.X[:, columns] - self.X[:, columns].mean(axis=0)
        left = scores - scores.mean()
        w[columns] = np.linalg.solve(X.T @ X + PRIOR_RECORDS * np.eye(len(columns)), X.T @ left)
        left = left - X @ w[columns]
        for g in self.space.groups.tolist():
            hot = self.X[:, self.space.spans[g]]
            w[self.space.spans[g]] = left @ hot / (hot.sum(axis=0) + PRIOR_RECORDS)
        return w

    @cached_property
    def _shown(self) -> tuple[tuple[frozenset[float], float, float], ...]:
        """Of each feature the states and levels that occur, and the smallest and largest number."""
        shown = []
        for feature, column in zip(self.space.features, self.rows_raw.T, strict=True):
            is_state = np.isin(column, feature.states_raw) | (not feature.is_number)
            numbers = column[~is_state]
            ends = (float(numbers.min()), float(numbers.max())) if numbers.size else (math.nan, math.nan)
            shown.append((frozenset(np.unique(column[is_state]).tolist()), *ends))
        return tuple(shown)

    def unseen(self, row_raw: Float[np.ndarray, "p"]) -> list[str]:
        """A sentence for each value of an unprotected feature that is outside the range of the reference records."""
        sentences = []
        for feature, value, (known, low, high) in zip(self.space.features, row_raw.tolist(), self._shown, strict=True):
            if feature.protected or value in known or low <= value <= high:
                continue
            if feature.is_number and value not in feature.states_raw and low <= high:
                ends = " to ".join(number_text(feature, end, unlike_raw=value) for end in (low, high))
                sentences.append(
                    f"The value of the {name_text(feature)} lies outside what the reference records show: {ends}."
                )
            else:
                sentences.append(f"No reference record has this value of the {name_text(feature)}.")
        return sentences

    @cached_property
    def median_distances(self) -> tuple[float, float]:
        """Two median L2 distances between different encoded records: to the nearest other record, and to any other.

        Both are 0 where all records are equal. Of many records, `MOST_NEIGHBOURS` are drawn with a fixed seed.
        """
        n = len(self.rows_raw)
        drawn = np.random.default_rng(0).choice(n, size=min(n, MOST_NEIGHBOURS), replace=False)
        X = unique_rows(self.X[np.sort(drawn)])
        if len(X) < 2:
            return 0.0, 0.0
        distance = cdist(X, X)
        pairs = distance[np.triu_indices(len(X), 1)]
        np.fill_diagonal(distance, np.inf)
        return float(np.median(distance.min(axis=1))), float(np.median(pairs))


Under: TypeAlias = Literal["stress", "same"]
"""What a share of future models is about: also applicants that change, or applicants as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness(InputPart):
    """What the answer must withstand, with any method."""

    future_validity: Annotated[float, Interval(gt=0, le=1)] | None = None
    """Share of the model's future models that must accept the answer; the search asks one half of them, and
    `validity.future` reports the other half. Needs a model with future models; null asks for none."""
    under: Under | None = None
    """`stress`: as many must accept it if applicants change in a way that was rehearsed, as far as 15 % of the cost
    buys that, with the margin of the method's own answer. `same`: if they stay as they are. Null is `stress` where
    stresses were rehearsed."""


class AskedOnce:
    """Models that score each record once; scores are kept.

    Parameters
    ----------
    score_rows : a function from raw rows to the score of each by each model
    """

    def __init__(self, score_rows: Callable[[np.ndarray], np.ndarray]) -> None:
        self._ask = score_rows
        self._known: dict[bytes, Float[np.ndarray, k]] = {}

    @property
    def rows_raw(self) -> Float[np.ndarray, "n p"]:
        """All rows that were asked about, at least one."""
        return np.array([np.frombuffer(key) for key in self._known])

    def accept(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n k"]:
        """Mask, per row and model, of the models that accept the raw row."""
        return favourable(self.scores(rows_raw))

    def scores(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n k"]:
        """The score of each raw row by each model; NaN where a model gives none that is finite."""
        keys = [row_raw.tobytes() for row_raw in rows_raw]
        new = {key: i for i, key in enumerate(keys) if key not in self._known}
        if new:
            scores = self._ask(rows_raw[list(new.values())])
            self._known |= zip(new, scores, strict=True)
            if len(new) == len(keys):
                return scores
        return np.array([self._known[key] for key in keys])


@dataclass(frozen=True, kw_only=True)
class RecourseProblem:
    """One applicant's question, what to change so that a model accepts, with everything the answer depends on."""

    black_box: BlackBox
    reference: Reference
    action_set: ActionSet
    siblings: tuple[BlackBox, ...] = ()
    """Other versions of the model, with the same columns; used for the certificate only."""
    others: Mapping[str, BlackBox] = field(default_factory=dict)
    """Models that the method's parameters name, with the same columns."""
    futures: Futures | None = None
    """Models that the lender might have after its next training; None where there are none."""
    future_validity: float | None = None
    """Share of the future models that must accept the answer, in (0, 1); None where none is requested."""
    under: Under | None = None
    """As in `Robustness`."""
    count: int = 1
    """How many alternatives are asked for that differ in what is changed; of a plan, 1 leaves the method's own."""
    on_curve: bool = False
    """Whether the answer is a point of a curve over one of the method's knobs, so that its constraint never yields."""
    offered_raw: Float[np.ndarray, "n p"] | None = None
    """Legal records that the model accepts, for where the method finds none; None where none are known."""
    seed: int = 0
    deadline: float = math.inf
    """`time.monotonic()` by which the answer is due; infinite for no limit."""

    @cached_property
    def held_back(self) -> "AskedOnce":
        """The held-back future models, which searches never ask; needs `futures`."""
        assert self.futures is not None
        return AskedOnce(self.futures.held_back.scores_raw)

    @property
    def under_stress(self) -> bool:
        """Whether the requested share of future models must accept also under stress, that is, if applicants change."""
        return self.futures is not None and self.futures.stressed_search is not None and self.under != "same"

    @cached_property
    def stressed(self) -> "AskedOnce":
        """The held-back future models that were trained under stress; needs `futures.stressed`."""
        assert self.futures is not None
        assert self.futures.stressed is not None
        return AskedOnce(self.futures.stressed.models.scores_raw)

    @cached_property
    def noise_seed(self) -> int:
        """Seed of the noisy copies, from `seed` and the record.

        It differs between persons, so that their measured rates do not share one error.
        """
        digest = hashlib.blake2b(self.factual_raw.tobytes(), digest_size=6).digest()
        return self.seed + int.from_bytes(digest)

    @property
    def factual_raw(self) -> Float[np.ndarray, "p"]:
        """The applicant's raw row."""
        return self.action_set.factual_raw

    def opened(self, rows_raw: Float[np.ndarray, "n p"]) -> "RecourseProblem":
        """The problem in which immovable features that `rows_raw` change may take any value; for sampling decisions.

        A sample in which such a feature is fixed would not show the effect of its change.
        """
        return replace(self, action_set=self.action_set.opened(rows_raw))

    @property
    def x0(self) -> Float[np.ndarray, "d"]:
        """The applicant's encoded point."""
        return self.action_set.x0
