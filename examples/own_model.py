"""A lender's own model, from training to advice: train a pipeline, draft its directory, register it, ask it.

    python -m examples.own_model --data FOLDER --output var/adult

FOLDER holds the data sets (RECOURSE_DATA when absent), in it Adult of the UCI repository as `adult/raw/adult.data.gz`:
who earns more than 50,000 USD stands in for who gets a loan. Without it, the demo lender's synthetic applicants are
used. Nothing of the manifest is written by hand.
"""

import argparse
import csv
import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.recourse import METHODS, CertificateParams, RecourseProblem, action_set, solve
from app.recourse.actions.sentences import changes
from app.registry.drafting.draft import Drafted, Wish, draft
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import RegisteredModel
from examples.consumer_loan.applicants import FEATURES, applicants

ADULT = Path("adult/raw/adult.data.gz")
COLUMNS = (
    "age", "workclass", "sample_weight", "education", "education_years", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
LEFT_OUT = ("sample_weight",)
"""It says how many people a record stands for, and nothing about them."""
RECORDS = 3_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Do all steps, and print what each one says."""
    parser = argparse.ArgumentParser(description="From a lender's own model to advice.")
    parser.add_argument("--data", type=Path, default=os.environ.get("RECOURSE_DATA"), help="folder of the data sets")
    parser.add_argument("--output", type=Path, required=True, help="new directory for all that is written")
    parser.add_argument("--records", type=int, default=RECORDS)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    label, good = write_records(options.data, options.output / "records.csv", options.records)
    train(options.output, label)
    drafted = write_draft(options.output, label, good)
    print(*drafted.notes, sep="\n")
    registered = Registry(options.output / "store").register(drafted.directory)
    print(f"Registered {registered.name}.", *registered.registration.notes, sep="\n")
    print(*advice(registered), sep="\n")


def write_records(data: Path | None, path: Path, count: int) -> tuple[str, str]:
    """Write a CSV of records as a lender has it; gives the column of the outcome, and its good value."""
    source = None if data is None else Path(data) / ADULT
    if source is not None and source.exists():
        with gzip.open(source, "rt", newline="") as file:
            rows = [row for row in csv.reader(file, skipinitialspace=True) if row][:count]
        header, label, good = list(COLUMNS), "income", ">50K"
    else:
        print(f"{ADULT} is not in {data or 'RECOURSE_DATA'}; synthetic applicants are used.")
        header, rows = synthetic(count)
        label, good = "repaid", "yes"
    kept = [j for j, name in enumerate(header) if name not in LEFT_OUT]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([row[j] for j in kept] for row in [header, *rows])
    return label, good


def synthetic(count: int) -> tuple[list[str], list[list[str]]]:
    """The demo lender's applicants, and whether they repaid."""
    rows_raw, repaid = applicants(count, seed=7)
    rows = [
        [*(str(feature.value(value)) for feature, value in zip(FEATURES, row, strict=True)), "yes" if paid else "no"]
        for row, paid in zip(rows_raw, repaid, strict=True)
    ]
    return [*(feature.name for feature in FEATURES), "repaid"], rows


def train(directory: Path, label: str) -> None:
    """Fit a pipeline to the records, and save it with the scores that it gives them."""
    import pandas as pd

    records = pd.read_csv(directory / "records.csv", keep_default_na=False)
    outcome = records.pop(label)
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    pipeline = make_pipeline(columns, LogisticRegression(max_iter=1_000)).fit(records, outcome)
    skops.io.dump(pipeline, directory / "pipeline.skops")
    scores = pipeline.predict_proba(records)[:, 1]
    (directory / "scores.csv").write_text("score\n" + "\n".join(repr(float(score)) for score in scores) + "\n")


def write_draft(directory: Path, label: str, good: str) -> Drafted:
    """Draft the model's directory: `recourse models draft` does the same."""
    wish = Wish(
        data=directory / "records.csv", model=directory / "pipeline.skops", label=label, favourable=good,
        scores=str(directory / "scores.csv"), id="own-model",
    )  # fmt: skip
    return draft(wish, directory / "own-model", Trust())


def advice(registered: RegisteredModel) -> list[str]:
    """What an applicant whose score is that of the best quarter of the rejected ones could change, as sentences."""
    model = registered.load()
    rejected = np.flatnonzero(model.reference.scores < 0.0)
    order = rejected[np.argsort(model.reference.scores[rejected])]
    factual_raw = model.reference.rows_raw[order[3 * len(order) // 4]]
    actions = action_set(model.black_box.space, factual_raw, rules=model.rules)
    method = METHODS["robust_mpm"]
    problem = RecourseProblem(black_box=model.black_box, reference=model.reference, action_set=actions)
    found: Any = solve(problem, method, method.params(), CertificateParams())
    if not found.counterfactuals:
        return [found.verdict.sentence]
    best = found.counterfactuals[0]
    sentences = changes(model.black_box.space.features, factual_raw, best.row_raw, actions.clock)
    return [
        *(change.text for change in sentences),
        f"The model then says yes with probability {best.probability:.2f}.",
    ]


if __name__ == "__main__":
    main()
