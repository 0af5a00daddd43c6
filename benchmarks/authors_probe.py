"""The authors' PROBE as plainly as it can be written, to compare with: not used by the service.

Adam on ``3 max(0, rate - target) - log p + l |x - x0|_1`` with the rate to first order, tested every 200 steps only.
`l` starts at 0.01 and loses 0.10 after each round, so that from the second round on it rewards distance. Nothing is
held: no limits, no whole numbers, no categories. All applicants of a task at once.
"""

import math

import numpy as np
from scipy.special import ndtr

from app.recourse.models.score import sigmoid
from benchmarks.tasks import Task

HINGE = 3.0
COST, LOST = 0.01, 0.10
TESTED_EVERY, STEPS, ROUNDS = 200, 1000, 5
RATE = 0.01


def points(task: Task, target: float, std: np.ndarray) -> np.ndarray:
    """Where each applicant is sent, encoded; NaN where the method gives up."""
    gradient = task.black_box.gradient
    assert gradient is not None
    x0 = task.space.encode(task.applicants_raw)
    X, done = x0.copy(), np.zeros(len(x0), dtype=bool)
    for k in range(ROUNDS):
        mean, square = np.zeros_like(X), np.zeros_like(X)
        for step in range(1, STEPS + 1):
            f, g = task.black_box.score(X), gradient(X)
            spread = np.maximum(np.sqrt(((g * std) ** 2).sum(axis=1)), 1e-12)
            density = np.exp(-0.5 * (f / spread) ** 2) / math.sqrt(2.0 * math.pi)
            rate = ndtr(-f / spread)
            pull = HINGE * (rate > target) * density / spread + 1.0 - sigmoid(f)
            G = -pull[:, None] * g + (COST - LOST * k) * np.sign(X - x0)
            mean += 0.1 * (G - mean)
            square += 0.001 * (G * G - square)
            move = mean / (1.0 - 0.9**step) / (np.sqrt(square / (1.0 - 0.999**step)) + 1e-8)
            X[~done] -= RATE * move[~done]
            if step % TESTED_EVERY == 0:
                f, g = task.black_box.score(X), gradient(X)
                rate = ndtr(-f / np.maximum(np.sqrt(((g * std) ** 2).sum(axis=1)), 1e-12))
                done |= (f >= 0.0) & (rate <= target)
        if done.all():
            break
    return np.where(done[:, None], X, np.nan)
