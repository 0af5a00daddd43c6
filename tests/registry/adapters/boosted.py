"""What the tests of XGBoost and of LightGBM share: data, and how a single tree is held against its boxes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from app.recourse.models.black_box import BlackBox
from app.recourse.models.tree_boxes import Boxes
from tests.registry.loan import WEIGHTS

COLUMNS = list(WEIGHTS)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 8))
Y = (X[:, 1] - X[:, 2] * X[:, 3] + RNG.normal(scale=0.5, size=600) > 0).astype(int)
FRESH = 1.5 * np.random.default_rng(1).normal(size=(10_000, 8))
EXTREME = np.random.default_rng(2).choice(
    [-1e300, -3.5e38, -1e-35, -1e-40, -5e-324, -0.0, 0.0, 5e-324, 1e-40, 1e-35, 3.5e38, 1e300], size=(2_000, 8)
)
SAMPLES = 100_000


def assert_boxes(black_box: BlackBox, thresholds: np.ndarray, extreme: np.ndarray = EXTREME) -> Boxes:
    """The boxes have the black box's scores everywhere, and its invalidation rate."""
    boxes = black_box.boxes
    assert boxes is not None
    edges = np.unique(np.concatenate([thresholds, boxes.upper[np.isfinite(boxes.upper)]]))
    on = np.random.default_rng(3).choice(edges, size=(10_000, 8))
    single = on.astype(np.float32)
    beside = [np.nextafter(single, np.float32(side)).astype(float) for side in (-np.inf, np.inf)]
    for points in (X, FRESH, extreme, on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), single * 1.0, *beside):
        points = np.asarray(points, dtype=float)
        assert np.array_equal(boxes.score(points), black_box.score(points))
    one_by_one = np.concatenate([black_box.score(x[None]) for x in on[:100]])
    assert np.array_equal(boxes.score(on[:100]), one_by_one)
    rng = np.random.default_rng(4)
    std = np.array([0.5, 0.3, 0.0, 0.4, 0.2, 0.0, 0.1, 0.3])
    rates = boxes.rate(FRESH[:8], std)
    assert ((rates > 0.01) & (rates < 0.99)).any()
    for x, rate in zip(FRESH[:8], rates, strict=True):
        refused = float((black_box.score(x + std * rng.standard_normal((SAMPLES, 8))) < 0.0).mean())
        assert abs(refused - rate) <= 4.0 * np.sqrt(rate * (1.0 - rate) / SAMPLES) + 1e-12
    return boxes


def try_mutants(directory: Path) -> dict[str, int]:
    """Run a third of the usual `mutants` on the model in `directory`; a crash fails the test."""
    run = [sys.executable, "-m", "tests.registry.adapters.mutants", str(directory), "0.33"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts
