"""A model that misbehaves on purpose: certain ages make it loop, die or talk nonsense. Loaded as a trusted pickle."""

import os
import signal

import numpy as np

LOOPS, DIES, STUMBLES = 91, 92, 93
GIVES_NAN, GIVES_TOO_MUCH, GIVES_TOO_FEW = 94, 95, 96
BROODS = 97
"""Decides on one record at once, and never on several."""


class OddModel:
    """Says yes to people with much income, unless their age makes it misbehave."""

    classes_ = np.array([0, 1])
    feature_names_in_ = np.array(["age", "income", "amount", "savings", "guarantor", "housing"])

    def predict_proba(self, X: object) -> np.ndarray:
        table = np.asarray(X)
        ages = {int(age) for age in table[:, 0].astype(float)}
        if LOOPS in ages or (BROODS in ages and len(table) > 1):
            sum(range(10**13))
        if DIES in ages:
            os.kill(os.getpid(), signal.SIGKILL)
        if STUMBLES in ages:
            raise ZeroDivisionError(f"age {sorted(ages)} is a secret")
        p = 1.0 / (1.0 + np.exp(-(table[:, 1].astype(float) - 5_000.0) / 1_000.0))
        if GIVES_NAN in ages:
            p = np.full_like(p, np.nan)
        if GIVES_TOO_MUCH in ages:
            p = np.full_like(p, 1.5)
        if GIVES_TOO_FEW in ages:
            p = p[:0]
        return np.column_stack([1.0 - p, p])
