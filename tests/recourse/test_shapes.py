"""Shapes and types in annotations of the core are checked in runs with ``TEST_TYPES=1``."""

import os

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from app.recourse.models.linear import LinearModel

pytestmark = pytest.mark.skipif(os.environ.get("TEST_TYPES") != "1", reason="annotations are checked with TEST_TYPES=1")


def test_an_array_of_the_wrong_shape_is_refused() -> None:
    model = LinearModel(np.ones(3), 0.0)
    assert model.score(np.zeros((2, 3))).tolist() == [0.0, 0.0]
    with pytest.raises(TypeCheckError):
        model.score(np.zeros(3))


def test_an_array_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(TypeCheckError):
        LinearModel(np.ones(3, dtype=int), 0.0)
