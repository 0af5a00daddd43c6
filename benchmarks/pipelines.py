"""Pipelines of scikit-learn over raw records: registration, and answers beside the model's own time.

The records are synthetic and shaped like a census: 6 numbers, 8 categorical features with 52 categories. The floor is
the pipeline's own `predict_proba` on the same rows, with tables that are made beforehand. Times are of the processor:
`OMP_NUM_THREADS=1` for those of one thread.
"""

import hashlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from app.recourse.actions.action_set import action_set
from app.recourse.methods import METHODS
from app.recourse.problem import RecourseProblem
from app.recourse.solve import solve
from app.registry.adapters.sklearn_model import input_table
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from benchmarks.tables import show

RECORDS = 30_000
APPLICANTS = 12
LEVELS = (2, 3, 5, 7, 9, 16, 6, 4)
SCALES = (1_000, 40, 5_000, 12, 300, 3)
ASKED = ("robust_mpm", "roar", "growing_spheres", "probe", "copa")


def _records(seed: int = 0) -> tuple[list[dict[str, Any]], Any, np.ndarray]:
    """Features, a table, and outcomes."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    features: list[dict[str, Any]] = []
    columns: dict[str, np.ndarray] = {}
    for k, scale in enumerate(SCALES):
        values = np.round(np.abs(rng.normal(size=RECORDS)) * scale, 0 if k % 2 else 2)
        columns[f"n{k}"] = values.astype(np.int64) if k % 2 else values
        features.append({"name": f"n{k}", "type": "integer" if k % 2 else "continuous", "min": 0})
    for k, count in enumerate(LEVELS):
        levels = [f"L{i}" for i in range(count)]
        columns[f"c{k}"] = rng.choice(levels, RECORDS)
        features.append({"name": f"c{k}", "type": "categorical", "categories": levels})
    total = columns["n0"] / 1_000 - columns["n1"] / 60 + (columns["c1"] == "L1") + (columns["c4"] == "L2")
    return features, pd.DataFrame(columns), (total + rng.logistic(size=RECORDS) > 1.0).astype(int)


def _pipelines() -> dict[str, Any]:
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def over(last: Any, *, sparse: bool = True) -> Any:
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
        numbers, levels = [f"n{k}" for k in range(len(SCALES))], [f"c{k}" for k in range(len(LEVELS))]
        return make_pipeline(make_column_transformer((StandardScaler(), numbers), (encoder, levels)), last)

    return {
        "logistic regression": over(LogisticRegression(max_iter=1_000)),
        "100 trees": over(RandomForestClassifier(100, max_depth=8, random_state=0)),
        "boosted histograms": over(HistGradientBoostingClassifier(random_state=0), sparse=False),
    }


def _registered(pipeline: Any, features: Sequence[dict[str, Any]], table: Any, root: Path) -> tuple[Any, float]:
    import skops.io

    source = root / "source"
    source.mkdir()
    content = skops.io.dumps(pipeline)
    (source / "model.skops").write_bytes(content)
    table.to_csv(source / "reference.csv", index=False)
    artifact = {"format": "sklearn", "path": "model.skops", "sha256": hashlib.sha256(content).hexdigest()}
    manifest = {
        "id": "census", "version": "1", "title": "Census", "artifact": artifact, "input": "raw",
        "output": "probability", "reference": "reference.csv", "features": list(features),
    }  # fmt: skip
    (source / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    began = time.process_time()
    registered = Registry(root / "store").register(source)
    return registered, time.process_time() - began


def _answers(loaded: LoadedModel, pipeline: Any, name: str) -> Sequence[str]:
    """Medians over the applicants: calls, rows, the answer, the floor."""
    calls: list[np.ndarray] = []
    box, method = loaded.black_box, METHODS[name]

    def counted(rows: np.ndarray) -> np.ndarray:
        calls.append(rows)
        return box.predict(rows)

    found = []
    table = input_table(pipeline, loaded.registered.manifest, loaded.registered.columns.model)
    refused = np.flatnonzero(loaded.reference.scores < 0.0)[: APPLICANTS + 1]
    for k, i in enumerate(refused):
        calls.clear()
        problem = RecourseProblem(
            black_box=replace(box, predict=counted), reference=loaded.reference,
            action_set=action_set(box.space, loaded.reference.rows_raw[i]),
        )  # fmt: skip
        began = time.process_time()
        solve(problem, method, method.params())
        answer = time.process_time() - began
        frames = [table(rows) for rows in calls]
        began = time.process_time()
        for frame in frames:
            pipeline.predict_proba(frame)
        if k:  # the first is slower
            found.append((len(calls), sum(map(len, calls)), 1e3 * answer, 1e3 * (time.process_time() - began)))
    count, rows, answer, floor = np.median(np.array(found), axis=0)
    ratio = np.median([one[2] / one[3] for one in found])
    return f"{count:.0f}", f"{rows:,.0f}", f"{answer:.0f}", f"{floor:.0f}", f"{ratio:.1f}"


def table() -> None:
    """Per pipeline and method: registration, calls and rows of an answer, its time, that of the model alone."""
    head = ("pipeline", "registration s", "method", "calls", "rows", "answer ms", "model alone ms", "answer / model")

    def rows() -> Iterator[Sequence[str]]:
        features, records, y = _records()
        for name, pipeline in _pipelines().items():
            with tempfile.TemporaryDirectory() as folder:
                fitted = pipeline.fit(records, y)
                registered, seconds = _registered(fitted, features, records, Path(folder))
                loaded = registered.load()
                for method in ASKED if name == "logistic regression" else ASKED[:1]:
                    yield (name, f"{seconds:.1f}", method, *_answers(loaded, fitted, method))

    show(f"Pipelines of scikit-learn: {RECORDS:,} reference records, medians of {APPLICANTS} applicants", head, rows())
