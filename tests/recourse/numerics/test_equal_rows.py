"""Equal rows, beside `numpy.unique`."""

import numpy as np
import pytest

from app.recourse.numerics.linalg import first_of_equal, unique_rows, unique_rows_and_places


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (2, 4), (50, 1), (50, 3), (300, 5)])
@pytest.mark.parametrize("case", range(3))
def test_rows_are_those_of_numpy(shape: tuple[int, int], case: int) -> None:
    rng = np.random.default_rng(case)
    rows = rng.integers(-1, 2, shape) * rng.choice([0.5, 1.0, 1e-300], shape[1])
    expected, first, places = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(unique_rows(rows), expected)
    np.testing.assert_array_equal(first_of_equal(rows), np.sort(first))
    found, own = unique_rows_and_places(rows)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(own, places.reshape(-1))
