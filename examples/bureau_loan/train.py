"""Train a lender's model on untidy records and write its model directory.

    python -m examples.bureau_loan.train var/bureau-loan
    recourse models register var/bureau-loan
    recourse models rehearse bureau-loan

Missing numbers, codes of a credit bureau, derived columns, advice that a person can take: `features.yaml` says it all,
and stands in the manifest as it is here. The model is XGBoost on numbers as they are.
"""

import argparse
import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
import yaml

from app.recourse.features import Record
from examples.bureau_loan.applicants import applicants, columns
from examples.training import auc

REFERENCE, FRESH = 3_000, 10_000
"""Applicants to train on, who go with the model; new ones, to judge it by."""
SEED, FRESH_SEED = 2026, 2027
THRESHOLD = 0.8
"""The lender accepts who repays with at least this probability."""
LABEL = "repaid"
"""Column of the true outcome."""
STATED_AUC = 0.87
"""What the manifest claims; a test holds it against fresh applicants."""
FEATURES = Path(__file__).with_name("features.yaml")

BETTER = {"months_in_job": 1, "education": 1, "years_of_education": 1, "hours_per_week": 1, "income": 1}
WORSE = {"debt_payments": -1, "debt_to_income": -1, "rent": -1, "amount": -1}
"""Columns in which the probability may only rise, or only fall. Columns with codes have no such order."""
SETTINGS = {
    "objective": "binary:logistic", "max_depth": 3, "eta": 0.1, "min_child_weight": 8, "lambda": 2.0, "nthread": 1,
    "monotone_constraints": BETTER | WORSE, "seed": SEED,
}  # fmt: skip
ROUNDS = 90


def train(records: list[Record], repaid: np.ndarray) -> Any:
    """The booster; the same records give the same one."""
    return xgboost.train(SETTINGS, matrix(records, repaid), num_boost_round=ROUNDS)


def matrix(records: list[Record], repaid: np.ndarray | None = None) -> Any:
    """What the booster takes."""
    named = columns(records)
    return xgboost.DMatrix(np.column_stack(list(named.values())), repaid, feature_names=list(named))


def write(directory: Path, booster: Any, records: list[Record], repaid: np.ndarray, version: str = "1") -> None:
    """Write manifest, model and reference records."""
    directory.mkdir(parents=True, exist_ok=True)
    content = bytes(booster.save_raw("json"))
    (directory / "model.json").write_bytes(content)
    with (directory / "reference.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*records[0], LABEL])
        writer.writerows([*record.values(), int(label)] for record, label in zip(records, repaid, strict=True))
    head = {
        "id": "bureau-loan",
        "version": version,
        "title": "Personal loan with a bureau record (synthetic applicants)",
        "titles": {"de": "Privatkredit mit Auskunft (erfundene Antragsteller)"},
        "description": f"Probability that an applicant for a personal loan repays it. Trained on {REFERENCE:,} "
        f"synthetic applicants, some with missing values and codes of a credit bureau; AUC {STATED_AUC} on new ones.",
        "artifact": {"format": "xgboost", "path": "model.json", "sha256": hashlib.sha256(content).hexdigest()},
        "input": "encoded",
        "output": "probability",
        "threshold": THRESHOLD,
        "reference": "reference.csv",
        "label": LABEL,
    }
    features = FEATURES.read_text(encoding="utf-8")
    (directory / "model.yaml").write_text(
        yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120) + features, encoding="utf-8"
    )


def main() -> None:
    """Train, say how good it is, write the directory."""
    parser = argparse.ArgumentParser(description="Train a model on untidy records of synthetic applicants.")
    parser.add_argument("directory", type=Path, help="model directory to write")
    parser.add_argument("--model-version", default="1", help="a registered version is never overwritten")
    arguments = parser.parse_args()
    records, repaid = applicants(REFERENCE, SEED)
    booster = train(records, repaid)
    fresh, outcomes = applicants(FRESH, FRESH_SEED)
    chance = booster.predict(matrix(fresh))
    approved = chance >= THRESHOLD
    print(f"AUC {auc(chance, outcomes):.3f} on {FRESH:,} new applicants; approves {approved.mean():.0%} of them,")
    defaults = [1 - outcomes[chosen].mean() for chosen in (approved, ~approved)]
    print(f"of whom {defaults[0]:.1%} default, and {defaults[1]:.0%} of the others.")
    write(arguments.directory, booster, records, repaid, arguments.model_version)
    print(f"Wrote {arguments.directory}. Next: recourse models register {arguments.directory}")


if __name__ == "__main__":
    main()
