"""The categories at the end of a file of LightGBM that was trained on a DataFrame."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from app.errors import Fault
from app.recourse.features import FeatureSpace, FeatureType
from app.registry.adapters.artifact import refused
from app.registry.adapters.tree_input import code_text

PANDAS = "pandas_categorical:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bitsets:
    """Sets of categories as bitsets of 32-bit words; the words of set k are ``words[starts[k]:starts[k + 1]]``."""

    starts: np.ndarray
    words: np.ndarray

    def codes(self, k: int) -> np.ndarray:
        """Whether each code from 0 is in set k, (32 times its words,)."""
        words = self.words[self.starts[k] : self.starts[k + 1]]
        return np.asarray((words[:, None] >> np.arange(32) & 1).astype(bool).ravel())


def pandas_categories(lines: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """The category lists in a LightGBM file: one for each categorical column of the DataFrame in training.

    The lists are in the order of the columns. There are none if the file states no categories.
    """
    stated = [line.removeprefix(PANDAS) for line in lines if line.startswith(PANDAS)]
    if not stated:
        return ()
    try:
        found = json.loads(stated[-1])
    except (ValueError, RecursionError) as error:
        raise refused("is not JSON", "/pandas_categorical") from error
    if found is None:
        return ()
    plain = isinstance(found, list) and all(isinstance(part, list) for part in found)
    if not plain or not all(isinstance(value, str | int | float | bool) for part in found for value in part):
        raise refused("must be a list of categories for each column that has some", "/pandas_categorical")
    return tuple(tuple(part) for part in found)


def named_categories(
    categories: Sequence[Sequence[Any]], space: FeatureSpace
) -> tuple[dict[int, list[str]], list[Fault]]:
    """The categories in a LightGBM file, as texts by feature index; and a fault if they cannot be assigned to features.

    The file has one list of categories for each categorical column, in column order, but does not name the columns. The
    lists are assigned, in order, to all features of certain types. Several choices of types may give the right number
    of features; the choice with most features that have the same categories as their list is taken.
    """
    texts = [[code_text(value) for value in part] for part in categories]
    kinds: tuple[tuple[FeatureType, ...], ...] = (
        (FeatureType.CATEGORICAL,),
        (FeatureType.CATEGORICAL, FeatureType.ORDINAL),
        (FeatureType.CATEGORICAL, FeatureType.BINARY),
        (FeatureType.CATEGORICAL, FeatureType.ORDINAL, FeatureType.BINARY),
    )
    fitting = []
    for kind, flags in product(kinds, (True, False)):
        # A feature of two texts is a category of the file; beside it a flag of 0 and 1 may be a number.
        columns = [j for j, one in enumerate(space.features) if one.type in kind and (one.categories or flags)]
        if len(columns) == len(texts):
            levels = [[code_text(x) for x in space.features[j].levels if x is not None] for j in columns]
            alike = sum(sorted(own) == sorted(text) for own, text in zip(levels, texts, strict=True))
            fitting.append((alike, columns))
    if not texts:
        return {}, []
    if not fitting:
        listed = "; ".join(", ".join(text[:10]) for text in texts[:10])
        own = ", ".join(feature.name for feature in space.features if not feature.is_number) or "none"
        detail = f"must have {len(texts)} with categories, as the model has ({listed}); the manifest has {own}"
        return {}, [Fault("/features", detail)]
    columns = max(fitting, key=lambda one: one[0])[1]
    return dict(zip(columns, texts, strict=True)), []
