"""``python -m benchmarks [table ...]``."""

import argparse
import os
import sys
from collections.abc import Callable

# As in the service's children; numeric libraries read it when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks import (
    attacks,
    augmented,
    backtest,
    batch,
    certificates,
    coverage,
    drift,
    fairness,
    formats,
    future_models,
    http,
    invalidation,
    knapsack,
    peers,
    people,
    pipelines,
    plans,
    records,
    rules,
    scaling,
    soak,
    start,
    tables,
    traces,
    walk,
    ways,
    wide,
)

TABLES: dict[str, Callable[[], None]] = {
    "methods": tables.methods,
    "frontier": tables.frontier,
    "mpm": tables.mpm,
    "knapsack": knapsack.table,
    "certificates": certificates.table,
    "plans": plans.table,
    "people": people.table,
    "peers": peers.table,
    "optimum": augmented.speed,
    "tradeoff": augmented.tradeoff,
    "smoothness": augmented.smoothness,
    "validity": augmented.validity,
    "fidelity": coverage.fidelity,
    "futures": coverage.futures,
    "invalidation": invalidation.table,
    "http": http.table,
    "fairness": fairness.table,
    "attacks": attacks.table,
    "batch": batch.table,
    "scaling": scaling.table,
    "start": start.table,
    "traces": traces.table,
    **drift.TABLES,
    "backtest": backtest.table,
    "records": records.table,
    "rules": rules.table,
    "walk": walk.table,
    "ways": ways.table,
    "wide": wide.wide,
    "slowest": wide.slowest,
    "pipelines": pipelines.table,
    "formats": formats.table,
    **future_models.TABLES,
}
"""Every table by the name it is asked for."""

SOAK = "soak"
"""The last one if it is asked for: its exit code says whether anything was lost."""


def main() -> None:
    """Print the tables asked for; all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print the benchmark tables.")
    parser.add_argument("table", nargs="*", choices=[*TABLES, SOAK, []], help="which; all but soak when none is named")
    parser.add_argument("--minutes", type=float, default=2.0, help="of the soak")
    asked = parser.parse_args()
    for name in asked.table or TABLES:
        if name == SOAK:
            sys.exit(0 if soak.table(asked.minutes) else 1)
        TABLES[name]()
        print()


if __name__ == "__main__":
    main()
