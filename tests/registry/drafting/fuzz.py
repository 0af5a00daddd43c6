"""Drafts of random tables whose truth is known: none registers wrong without having asked.

python -m tests.registry.drafting.fuzz --tables 500
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from app.errors import ModelRefused
from app.recourse.models.score import sigmoid
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.questions import Undecided
from app.registry.lender_scores import outputs_of
from app.registry.registry import Registry
from app.registry.trust import Trust
from tests.optional import library

LABELS = (
    "SeriousDlqin2yrs",
    "TARGET",
    "loan_status",
    "default",
    "not.fully.paid",
    "good",
    "repaid",
    "y",
    "dpd90",
    "Risk",
)
VALUES = (
    ("0", "1"),
    ("1", "0"),
    ("Yes", "No"),
    ("No", "Yes"),
    ("good", "bad"),
    ("Fully Paid", "Charged Off"),
    ("1", "2"),
)
"""The good outcome, then the bad one."""
NAMES = ("income", "debts", "utilisation", "x7", "NUMTRADES", "months_since_late", "amount", "rate", "PAY_0", "score_b")
RECORDS = 300
EQUAL = 1e-6


def attempt(seed: int) -> str:
    """One table: `right`, `wrong`, `refused: …`; a question is answered with the truth, or counts as `asked`."""
    rng = np.random.default_rng(seed)
    names = list(rng.permutation(NAMES)[: rng.integers(3, 7)])
    columns = {name: _column(rng) for name in names}
    z = sum(rng.normal() * (np.nan_to_num(c) - np.nanmean(c)) / (np.nanstd(c) or 1.0) for c in columns.values())
    good_value, bad_value = VALUES[rng.integers(len(VALUES))]
    good = rng.random(RECORDS) < sigmoid(2.0 * np.asarray(z))
    one_is_good = bool(rng.random() < 0.5)
    lightgbm = library("lightgbm")
    X = np.column_stack(list(columns.values()))
    data = lightgbm.Dataset(X, (good == one_is_good).astype(int), feature_name=names)
    booster = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1, "min_data": 5}, data, 15)
    first = booster.predict(X, num_threads=1)
    truth = first if one_is_good else 1.0 - first
    label, comma = str(rng.choice(LABELS)), bool(rng.random() < 0.25)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        booster.save_model(directory / "model.txt")
        _write(directory / "d.csv", columns, label, np.where(good, good_value, bad_value), rng, comma=comma)
        scores = rng.random() < 0.3
        (directory / "s.csv").write_text("score\n" + "\n".join(repr(float(p)) for p in truth))
        wish = Wish(
            data=directory / "d.csv", model=directory / "model.txt", label=label, favourable=good_value,
            scores=str(directory / "s.csv") if scores else None,
        )  # fmt: skip
        try:
            draft(wish, directory / "m", Trust())
            loaded = Registry(directory / "store").register(directory / "m").load()
        except Undecided as asked:
            return "asked: " + ", ".join(question.key for question in asked.questions)
        except ModelRefused as refused:
            return f"refused: {' '.join(str(refused).split())[-160:]}"
        found = outputs_of(loaded.black_box, loaded.reference.scores)
    return "right" if len(found) == RECORDS and np.abs(found - truth).max() < EQUAL else "wrong"


def _column(rng: np.random.Generator) -> np.ndarray:
    kind = rng.integers(5)
    if kind == 0:
        values = rng.integers(0, 50, RECORDS).astype(float)
    elif kind == 1:
        values = np.round(rng.lognormal(7, 0.5, RECORDS), 2)
    elif kind == 2:
        values = np.round(rng.beta(2, 3, RECORDS), 4)
    elif kind == 3:
        values = rng.integers(-3, 9, RECORDS).astype(float)
    else:
        values = rng.integers(0, 2, RECORDS).astype(float)
    if kind < 2 and rng.random() < 0.4:
        values[rng.random(RECORDS) < 0.05] = rng.choice([-9, -999, 99_999])
    if kind != 4 and rng.random() < 0.3:
        values[rng.random(RECORDS) < 0.08] = np.nan
    return values


def _write(
    path: Path,
    columns: dict[str, np.ndarray],
    label: str,
    outcomes: np.ndarray,
    rng: np.random.Generator,
    *,
    comma: bool,
) -> None:
    absent = str(rng.choice(["", "NA", "nan"]))
    mark, delimiter = (",", ";") if comma else (".", ",")

    def cell(value: float) -> str:
        text = absent if np.isnan(value) else str(int(value)) if value == int(value) else repr(float(value))
        return text.replace(".", mark)

    rows = [delimiter.join([*columns, label])]
    for i in range(RECORDS):
        rows.append(delimiter.join([*(cell(values[i]) for values in columns.values()), str(outcomes[i])]))
    path.write_text("\n".join(rows) + "\n")


def main() -> None:
    """Try tables, and print what became of them."""
    parser = argparse.ArgumentParser(description="Drafts of random tables whose truth is known.")
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    found = {seed: attempt(seed) for seed in range(options.first, options.first + options.tables)}
    for seed, one in found.items():
        if one == "wrong" or one.startswith("refused"):
            print(seed, one)
    print(Counter(one.partition(":")[0] for one in found.values()))


if __name__ == "__main__":
    main()
