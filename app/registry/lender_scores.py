"""The lender's own scores of the reference records, and how far those of the service are from them."""

import csv
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from app.errors import Fault, ModelRefused
from app.recourse.features import ABSENT, DecimalMark, written
from app.recourse.models.black_box import BlackBox
from app.recourse.models.score import Output, sigmoid
from app.registry.reference import read_header, read_table

SCORE = "score"
"""Column of the reference with the lender's own score of each record."""

TOLERANCE = 1e-4
"""Largest difference to the lender's scores; single precision and rounded scores differ less."""

WORST = 3
"""Records that are named where scores differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """For each reference record, the model's output beside the lender's own score."""

    given: Float[np.ndarray, "n"]
    """The lender's; NaN for records without one."""
    found: Float[np.ndarray, "n"]
    """The service's, in the unit of the model's output."""
    tolerance: float

    @property
    def difference(self) -> Float[np.ndarray, "n"]:
        """The absolute difference of output and lender's score for each record, (n,); 0 for a record without score."""
        return np.nan_to_num(np.abs(self.given - self.found))

    @property
    def allowed(self) -> float:
        """Largest difference that is allowed: `tolerance`, or more if the lender's scores are rounded.

        For rounded scores it is at least half a unit of their last digit.
        """
        digits = next((k for k in range(7) if np.allclose(self.given, np.round(self.given, k), 0, 1e-12, True)), 7)
        varied = len(set(self.given.tolist())) > 2
        return max(self.tolerance, 0.5 * 10.0**-digits * 1.001) if 1 < digits < 7 and varied else self.tolerance

    @property
    def agrees(self) -> bool:
        """Whether every output differs from the lender's score by at most `allowed`."""
        return bool(self.difference.max(initial=0.0) <= self.allowed)

    @property
    def sentence(self) -> str:
        """A sentence that states how far outputs and lender's scores differ, and names the records that differ most."""
        compared = int((~np.isnan(self.given)).sum())
        if self.agrees:
            return (
                f"The scores are the lender's: {compared:,} compared, largest difference "
                f"{self.difference.max(initial=0.0):.1e}."
            )
        off = int((self.difference > self.allowed).sum())
        worst = np.argsort(-self.difference, kind="stable")[:WORST]
        shown = "; ".join(f"record {i}: {self.found[i]:.6g}, lender {self.given[i]:.6g}" for i in worst)
        return (
            f"differ from the model's own in {off:,} of {compared:,} records, by up to {self.difference.max():.3g} "
            f"(tolerance {self.allowed:g}). Largest differences: {shown}"
        )

    @property
    def reason(self) -> str:
        """Advice, if a usual mistake explains the differences, such as logits in place of probabilities; else empty."""
        known = ~np.isnan(self.given)
        given, found = self.given[known], self.found[known]

        def near(values: np.ndarray) -> bool:
            return bool(np.abs(values - found).max(initial=0.0) <= max(self.allowed, 1e-9))

        if near(1.0 - given):
            return "They are those of the other class: change favourable, or give 1 - score"
        if near(-given):
            return "They are logits of the other class: change favourable, or give them with the other sign"
        if near(sigmoid(given)):
            return "They are logits: give probabilities, or say output: logit"
        if ((given > 0.0) & (given < 1.0)).all() and near(np.log(given / (1.0 - given))):
            return "They are probabilities: give logits, or say output: probability"
        if near(given / 100.0):
            return "They are percentages: divide them by 100"
        if near(np.sort(given)[np.argsort(np.argsort(found))]):
            return "The same scores in another order: are the records in the order of the scores?"
        return ""


def compare(
    black_box: BlackBox, scores: Float[np.ndarray, "n"], given: Float[np.ndarray, "n"], tolerance: float
) -> Comparison:
    """Compare the lender's scores (`given`) with the model's outputs, computed from `scores` of its black box."""
    return Comparison(given=given, found=outputs_of(black_box, scores), tolerance=tolerance)


def outputs_of(black_box: BlackBox, scores: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The model's outputs, computed from the black box's `scores`: probabilities, logits, points, or labels (1, 0)."""
    if black_box.points is not None:
        return black_box.points.of(scores)
    probabilities = black_box.probability(scores)
    if black_box.output is Output.PROBABILITY and probabilities is not None:
        return probabilities
    return np.asarray(
        scores + black_box.threshold if black_box.output in (Output.LOGIT, Output.MARGIN) else scores > 0.0, dtype=float
    )


def read_scores(path: Path) -> Float[np.ndarray, "n"]:
    """The lender's scores in a CSV file: its only column, with or without header, or else its column `score`.

    An absent score is NaN. Raises `ModelRefused` where the file has no scores, or has texts that are no numbers.
    """
    try:
        table = read_table(path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ModelRefused(f"{path} cannot be read as CSV in UTF-8") from error
    except OSError as error:
        raise ModelRefused(f"{path} cannot be read: {error.strerror}") from error
    if len(table.header) == 1:
        texts = [row[0] if row else "" for row in table.rows]
        if any(written(table.header[0], mark) for mark in ".,"):  # no header
            texts = [table.header[0], *texts]
    elif SCORE in table.header:
        at = table.header.index(SCORE)
        texts = [row[at] if at < len(row) else "" for row in table.rows]
    else:
        raise ModelRefused(f'{path} must have one column, or one named "{SCORE}"; it has {", ".join(table.header)}')
    scores, faults = parse_scores(texts, table.delimiter)
    if faults:
        raise ModelRefused(f"{path} has scores that are no numbers: {faults[0].detail}")
    return scores


def scores_in(path: Path, features: Collection[str]) -> tuple[Float[np.ndarray, "n"] | None, list[Fault]]:
    """The lender's scores in the column `score` of a reference file, and the faults of that column.

    An absent score is NaN. The scores are None where the file has no such column, where `score` is a feature of the
    model, or where there are faults.
    """
    if SCORE in features:
        return None, []
    try:
        if read_header(path).count(SCORE) != 1:
            return None, []
        table = read_table(path)
    except (UnicodeDecodeError, csv.Error):
        return None, []  # reported of the reference itself
    if any(len(row) != len(table.header) for row in table.rows):
        return None, []
    at = table.header.index(SCORE)
    scores, faults = parse_scores([row[at] for row in table.rows], table.delimiter)
    return (None if faults or np.isnan(scores).all() else scores), faults


def parse_scores(texts: list[str], delimiter: str = ",") -> tuple[Float[np.ndarray, "n"], list[Fault]]:
    """The scores in `texts` as numbers, and a fault for the first text that is no number.

    An absent score is NaN. `delimiter` is the cell delimiter of the table; it helps to recognise a decimal comma.
    """
    seen = DecimalMark()
    seen.see(texts)
    try:
        mark = seen.of(delimiter) or "."
    except ValueError as error:
        return np.zeros(0), [Fault(f"/reference/0/{SCORE}", str(error))]
    cells = {text: written(text, mark) for text in set(texts)}
    odd = {text for text, cell in cells.items() if text.strip() not in ABSENT and (cell is None or cell.percent)}
    wrong = [i for i, text in enumerate(texts) if text in odd]
    faults = [
        Fault(f"/reference/{i}/{SCORE}", f'record {i} has "{texts[i].strip()[:20]}", which is no finite number')
        for i in wrong[:1]
    ]
    return np.array([math.nan if (cell := cells[text]) is None else float(cell.plain) for text in texts]), faults
