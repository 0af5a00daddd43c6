"""Linear decisions."""

import math

import numpy as np
import pytest

from app.errors import DegenerateSurrogate
from app.recourse.models.linear import LinearModel


def test_scores_in_unit_form_are_distances() -> None:
    model = LinearModel(np.array([3.0, 4.0]), -10.0)
    X = np.array([[2.0, 1.0], [0.0, 0.0], [5.0, 5.0]])
    assert model.score(X).tolist() == [0.0, -10.0, 25.0]
    assert model.unit().score(X).tolist() == pytest.approx([0.0, -2.0, 5.0])
    assert np.linalg.norm(model.unit().w) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("w", "c"), [([0.0, 0.0], 1.0), ([math.nan, 1.0], 0.0), ([math.inf, 1.0], 0.0), ([1.0, 0.0], math.nan)]
)
def test_a_model_that_decides_the_same_everywhere_has_no_unit_form(w: list[float], c: float) -> None:
    with pytest.raises(DegenerateSurrogate):
        LinearModel(np.array(w), c).unit()
