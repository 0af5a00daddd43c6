"""A model that passes every examination of its file, and does harm where a file says so. A trusted pickle."""

import multiprocessing
import os
import random
import signal

import numpy as np


class Trap:
    """Says yes to people with much income; the text in the file `path` makes it hang, take memory, or guess.

    Only in a child of a pool, as a model that does harm for some inputs only.
    """

    classes_ = np.array([0, 1])
    feature_names_in_ = np.array(["age", "income", "amount", "savings", "guarantor", "housing"])

    def __init__(self, path: str) -> None:
        self.path = path

    def predict_proba(self, X: object) -> np.ndarray:
        table = np.asarray(X)
        harm = ""
        if os.path.exists(self.path) and multiprocessing.parent_process() is not None:
            with open(self.path) as file:
                harm = file.read()
        if harm == "hangs":
            sum(range(10**13))
        if harm == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if harm == "devours":
            bytearray(16 << 30)
        income = table[:, 1].astype(float) + (1000.0 * random.random() if harm == "guesses" else 0.0)
        p = 1.0 / (1.0 + np.exp(-(income - 5_000.0) / 1_000.0))
        return np.column_stack([1.0 - p, p])
