"""Train the demo model, `consumer-loan`, on synthetic applicants and write its model directory.

    python examples/consumer_loan/train.py --output var/consumer-loan --records var/records.csv
    recourse models register var/consumer-loan
    recourse models rehearse consumer-loan --data var/records.csv --records fresh

The result of exactly this is what `models_store/consumer-loan/1` holds. The future models are trained on all records
that the model itself was trained on; the reference has only the first thousand of them. With `--model-version 2 --year
1` it is the lender's model of a year later, which breaks some promises of version 1.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from app.recourse.features import FeatureSpace
from examples.consumer_loan.applicants import FEATURES, applicants
from examples.training import auc, probability, standardised, train_mlp, write_model, write_records

TRAINING, REFERENCE, FRESH = 20_000, 1_000, 10_000
"""Applicants to train on; the first of them, which go with the model; new ones, to judge it by."""
SEED, FRESH_SEED = 2026, 2027
THRESHOLD = 0.8
"""The lender accepts who repays with at least this probability."""
LABEL = "repaid"
"""Column of the true outcome."""
STATED_AUC = 0.84
"""What the manifest claims; a test holds it against fresh applicants."""


def train(year: int = 0) -> tuple[FeatureSpace, Any, np.ndarray, np.ndarray]:
    """The encoding, the network, and the raw rows it was trained on with their outcomes."""
    rows_raw, repaid = applicants(TRAINING, SEED + 10 * year, year)
    space = standardised(FEATURES, rows_raw)
    network = train_mlp(
        space.encode(rows_raw), repaid, SEED + year, hidden=(16, 8), epochs=15, batch_size=256, learning_rate=3e-3
    )
    return space, network, rows_raw, repaid


def description(year: int) -> str:
    """What the manifest says of the model."""
    if year:
        trained = f"{TRAINING:,} synthetic applicants of year {year}; fewer without savings repay than in year 0."
    else:
        trained = (
            f"{TRAINING:,} synthetic applicants; AUC {STATED_AUC} on new ones, of whom it accepts nearly two thirds."
        )
    return f"Probability that an applicant for a personal loan repays it. Trained on {trained}"


def main() -> None:
    """Train, say how good it is, write the directory."""
    parser = argparse.ArgumentParser(description="Train the demo model on synthetic applicants.")
    parser.add_argument("--output", type=Path, required=True, help="model directory to write")
    parser.add_argument("--records", type=Path, help="CSV to write the labelled training records to")
    parser.add_argument("--model-version", default="1", help="a registered version is never overwritten")
    parser.add_argument("--year", type=int, default=0, help="train on the applicants of so many years later")
    arguments = parser.parse_args()
    output: Path = arguments.output
    space, network, rows_raw, outcomes = train(arguments.year)
    fresh_raw, repaid = applicants(FRESH, FRESH_SEED + 10 * arguments.year, arguments.year)
    chance = probability(network, space.encode(fresh_raw))
    approved = chance >= THRESHOLD
    print(f"AUC {auc(chance, repaid):.3f} on {FRESH:,} new applicants; approves {approved.mean():.0%} of them,")
    print(f"of whom {1 - repaid[approved].mean():.1%} default, and {1 - repaid[~approved].mean():.0%} of the others.")
    write_model(
        output,
        identity={
            "id": "consumer-loan",
            "version": arguments.model_version,
            "title": "Personal loan (synthetic applicants)",
            "titles": {"de": "Privatkredit (erfundene Antragsteller)"},
            "description": description(arguments.year),
            "consumer_report": ["card_utilisation", "late_payments"],
        },
        space=space,
        network=network,
        threshold=THRESHOLD,
        reference_raw=rows_raw[:REFERENCE],
        outcomes=(LABEL, outcomes[:REFERENCE]),
    )
    if arguments.records:
        write_records(arguments.records, space, rows_raw, (LABEL, outcomes))
    print(f"Wrote {output}. Next: recourse models register {output}")


if __name__ == "__main__":
    main()
