"""``python -m benchmarks [table ...]``."""

import argparse
import os
from collections.abc import Callable

# As in the service's children; numeric libraries read it when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks import (
    augmented,
    batch,
    certificates,
    coverage,
    future_models,
    http,
    invalidation,
    knapsack,
    people,
    pipelines,
    plans,
    records,
    rules,
    start,
    tables,
    ways,
)

TABLES: dict[str, Callable[[], None]] = {
    "methods": tables.methods,
    "frontier": tables.frontier,
    "mpm": tables.mpm,
    "knapsack": knapsack.table,
    "certificates": certificates.table,
    "plans": plans.table,
    "people": people.table,
    "optimum": augmented.speed,
    "tradeoff": augmented.tradeoff,
    "smoothness": augmented.smoothness,
    "validity": augmented.validity,
    "fidelity": coverage.fidelity,
    "futures": coverage.futures,
    "invalidation": invalidation.table,
    "http": http.table,
    "batch": batch.table,
    "start": start.table,
    "records": records.table,
    "rules": rules.table,
    "ways": ways.table,
    "pipelines": pipelines.table,
    **future_models.TABLES,
}
"""Every table by the name it is asked for."""


def main() -> None:
    """Print the tables asked for; all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print the benchmark tables.")
    parser.add_argument("table", nargs="*", choices=[*TABLES, []], help="which; all when none is named")
    for name in parser.parse_args().table or TABLES:
        TABLES[name]()
        print()


if __name__ == "__main__":
    main()
