"""The matrix that boosted trees take: some of the encoded columns, or one column for each feature of a record.

In a matrix of records (``input: raw``) numbers stand as they are, and a level is its code: its position among the
categories in the model's file, or in the manifest where the file has none. A missing value is NaN.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from app.errors import Fault
from app.recourse.features import Feature, FeatureSpace, RawValue
from app.recourse.models.black_box import Input
from app.registry.adapters.column_names import chosen_columns, notes_on_dropped, plain_name, whole_levels
from app.registry.manifest import Manifest
from app.registry.printable import listed

MOST_CODES = 10_000
"""Number of categories by which a column of whole numbers may be split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeInput:
    """Converts the rows that a black box takes to the matrix that the trees of an ensemble take."""

    count: int
    """Columns of the matrix."""
    indices: Int[np.ndarray, "k"] | None = None
    """Which encoded column each one is; None for all of them, in order."""
    codes: Mapping[int, Float[np.ndarray, "l"]] = field(default_factory=dict)
    """The codes of each column of levels: one for each level, then NaN for a missing one."""
    missing: float | None = None
    """The number that the trees were trained to read as a missing value."""
    notes: tuple[str, ...] = ()
    """What the operator should know of it."""

    def matrix(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """The matrix that the trees take, made from encoded points, or from raw rows with ``input: raw``."""
        if self.indices is not None:
            return self._without_missing(rows[:, self.indices])
        if not self.codes:
            return self._without_missing(rows)
        found = self._without_missing(rows).copy()
        for j, codes in self.codes.items():
            last = len(codes) - 1
            found[:, j] = codes[np.where(np.isnan(rows[:, j]), last, rows[:, j]).astype(np.intp)]
        return found

    def _without_missing(self, rows: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """NaN for the number that is read as missing, in single precision, as the trees compare."""
        if self.missing is None:
            return rows
        return np.where(rows.astype(np.float32) == np.float32(self.missing), np.nan, rows)

    def warn(self) -> None:
        """Issue each of `notes` as a warning; a registration collects the warnings and keeps them."""
        for note in self.notes:
            warnings.warn(note, stacklevel=3)

    def same(self, other: "TreeInput") -> bool:
        """Whether `other` makes the same matrix from the same rows."""
        return (
            self.count == other.count
            and self.missing == other.missing
            and _listed(self.indices) == _listed(other.indices)
            and self.codes.keys() == other.codes.keys()
            and all(np.array_equal(codes, other.codes[j], equal_nan=True) for j, codes in self.codes.items())
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """All fields except `notes`, as arrays by name, to be stored in a file; `of_arrays` is the inverse."""
        found = {f"codes{j}": codes for j, codes in self.codes.items()}
        found |= {} if self.indices is None else {"indices": self.indices}
        found |= {} if self.missing is None else {"missing": np.array(self.missing)}
        return found | {"columns": np.array(self.count)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], columns: int) -> "TreeInput":
        """The `TreeInput` from which `arrays` were made.

        If `arrays` is empty, the result takes `columns` encoded columns in order.
        """
        codes = {int(name[5:]): array for name, array in arrays.items() if name.startswith("codes")}
        count = int(arrays.get("columns", columns))
        missing = float(arrays["missing"]) if "missing" in arrays else None
        return cls(count=count, indices=arrays.get("indices"), codes=codes, missing=missing)


def _listed(indices: Int[np.ndarray, "k"] | None) -> list[int] | None:
    return None if indices is None else indices.tolist()


def tree_input(
    manifest: Manifest, space: FeatureSpace, names: Sequence[str] | None, count: int
) -> tuple[TreeInput, list[Fault]]:
    """The `TreeInput` for an ensemble trained on `count` columns called `names`, and the faults of the manifest.

    The manifest has a fault where its columns differ from those of the ensemble. The codes of categories come from the
    manifest, not from the model's file.
    """
    if manifest.input is Input.ENCODED:
        indices, faults = chosen_columns(names, count, space, manifest.file.map)
        if faults and names is not None and not _raw_faults(manifest, space, names, count):
            detail = "must be raw: the model was trained on one column for each feature"
            faults = [Fault("/input", detail)]
        notes = notes_on_dropped(indices, space, manifest.file.map)
        return TreeInput(count=count, indices=indices, notes=notes, missing=manifest.file.missing), faults
    numbers = manifest.file.codes == "numbers"
    codes = {
        j: np.array([*(_numbers(feature) if numbers else range(len(_known(feature)))), np.nan], dtype=float)
        for j, feature in enumerate(space.features)
        if not feature.is_number
    }
    return TreeInput(count=count, codes=codes, missing=manifest.file.missing), _raw_faults(
        manifest, space, names, count
    )


def _raw_faults(manifest: Manifest, space: FeatureSpace, names: Sequence[str] | None, count: int) -> list[Fault]:
    named = manifest.file.map or {}
    if unknown := sorted(named.keys() - set(space.names)):
        detail = f"has {', '.join(unknown)}; with input: raw its keys are features: {', '.join(space.names)}"
        return [Fault("/artifact/map", detail)]
    expected = [named.get(name) or name for name in space.names]
    if names is not None and [plain_name(name) for name in expected] != [plain_name(name) for name in names]:
        pairs = zip(expected, names, strict=False)
        odd = next((f'"{a}" where it has "{b}"' for a, b in pairs if plain_name(a) != plain_name(b)), "fewer or more")
        both = f"the model takes {', '.join(names)}, the manifest has {', '.join(expected)} ({odd})"
        return [Fault("/features", f"must be the columns of the model in its order, for input: raw: {both}")]
    if count != space.p:
        detail = f"are {space.p}, but the model was trained on {count} columns; input: raw has one for each feature"
        return [Fault("/features", detail)]
    return []


def _numbers(feature: Feature) -> Sequence[int]:
    """The numbers that levels are; their positions where they are none."""
    return [int(level) for level in feature.categories] if whole_levels(feature) else range(len(_known(feature)))


def _known(feature: Feature) -> list[RawValue]:
    return [level for level in feature.levels if level is not None]


def code_text(value: Any) -> str:
    """The text that a manifest has to write for a category that a model's file stores as `value`."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def with_codes(
    taken: TreeInput,
    manifest: Manifest,
    space: FeatureSpace,
    categories: Mapping[int, Sequence[str]],
    asked: Collection[int],
) -> tuple[TreeInput, list[Fault]]:
    """`taken` with the file's category codes, and a fault for each feature with other categories than the file.

    The notes of the result name the columns that trees split by categories (`asked`) but whose categories are not in
    the model's file.

    Parameters
    ----------
    categories : by column index, the categories in the file; the code of a category is its position
    asked : column indices
    """
    codes, faults = dict(taken.codes), []
    for j, stored in categories.items():
        shown = listed(stored, 20)
        feature = space.features[j]
        if feature.is_number:
            detail = (
                f'"{feature.name}" is {feature.type}, but the model takes categories: {shown}; '
                "declare it categorical with these categories"
            )
            faults.append(Fault(f"/features/{j}/type", detail))
            continue
        own = [code_text(level) for level in _known(feature)]
        if len(set(stored)) < len(stored) or sorted(own) != sorted(stored):
            detail = f'of "{feature.name}" are {listed(own, 20)}, but the model was trained on {shown}'
            faults.append(Fault(f"/features/{j}/categories", f"{detail}; they must be the same, in any order"))
            continue
        codes[j] = np.array([*(list(stored).index(text) for text in own), np.nan], dtype=float)
    silent = [space.features[j].name for j in sorted(asked) if j not in categories and j in codes]
    note = (
        f"The file does not name the categories of {', '.join(silent)}: their codes are taken to be their positions in "
        "the manifest, from 0."
    )
    notes = (note,) if silent and manifest.file.codes != "numbers" else ()
    return replace(taken, codes=codes, notes=notes), faults


def most_codes(space: FeatureSpace, j: int) -> int:
    """The number of category codes allowed in splits of column `j`: each code must be less than this number."""
    feature = space.features[j]
    return MOST_CODES if feature.is_number or whole_levels(feature) else len(_known(feature))
