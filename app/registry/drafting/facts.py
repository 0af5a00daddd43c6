"""What a model's own file says about the model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.errors import ModelRefused
from app.recourse.features import ABSENT
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.artifact import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What a model's file, or its server, states about the model and its columns."""

    format: Format
    file: str
    """Name that the file gets beside the manifest; "the server" of a model that has none."""
    content: bytes
    input: Input = Input.ENCODED
    output: Output = Output.PROBABILITY
    names: tuple[str, ...] | None = None
    """Columns that the model takes, in its order: of the table (`raw`), or encoded ones; None where they have no
    names."""
    width: int | None = None
    """Number of columns."""
    levels: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    """Levels that the model knows of columns of the table; None where missing is one of them."""
    ordered: frozenset[str] = frozenset()
    """Columns of the table whose levels have the order in which they stand."""
    numbers: frozenset[str] = frozenset()
    """Columns of the table that the model takes as numbers."""
    coded: frozenset[str] = frozenset()
    """Columns of the table of whose levels the model knows the positions only, in the order of the alphabet."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Whole numbers that encoders know as levels, where the file does not say of which columns."""
    numbered_levels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Codes of levels that the model's file has for columns of the table whose levels it does not name."""
    all_codes: bool = True
    """Whether these are all codes of the training; else the largest one is no larger than those."""
    imputed: frozenset[str] = frozenset()
    """Columns of the table whose missing values the model fills itself."""
    knows_missing: frozenset[str] = frozenset()
    """Columns of numbers of which the model says what a missing value gives."""
    cut_offs: tuple[float, ...] = ()
    """Numbers in the file that may be the model's own threshold, of either class."""
    label_output: str | None = None
    """The output of a graph with the model's own decisions, where another one has probabilities."""
    saw_missing: frozenset[str] | None = None
    """Columns that had missing values when the model was trained; None where the file does not say."""
    takes_missing: bool = False
    """Whether a missing number reaches the model as such, as its library does."""
    saw_all: frozenset[str] = frozenset()
    """Columns that had none, for certain."""
    codes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Special codes of columns of numbers."""
    tolerant: frozenset[str] = frozenset()
    """Columns of the table for which the model accepts levels that it does not know."""
    classes: tuple[bool | int | str, ...] = (0, 1)
    """The classes between which it decides, in its order."""
    numbered: bool = True
    """Whether `favourable` is 0 or 1, the place of the class, and not its own name."""
    by_column: bool = False
    """Whether the artifact must say which column of the output is the favourable class."""
    artifact: Mapping[str, Any] = field(default_factory=dict)
    """More keys of the artifact."""
    encodings: tuple[str, ...] = ("none",)
    """Encodings of numbers that are possible, the likeliest first; what no file says."""
    choices: tuple[Mapping[str, Any], ...] = ({},)
    """More keys of the artifact between which the file does not decide, the likeliest first."""
    undecided: str = ""
    """The choice between `choices` in words, for a comment."""
    notes: tuple[str, ...] = ()
    """Sentences for the lender."""

    @property
    def remote(self) -> bool:
        """Whether the model is on a server, without a file."""
        return self.format is Format.HTTP

    def over(self, table: Mapping[str, Sequence[str]]) -> "ModelFacts":
        """The facts, completed by what a table of records shows. `table` has the cells of each column as texts.

        Three things are completed. A column of numbers gets one of `groups` as its levels if its distinct values are
        exactly this group. A column whose levels the file has only as codes gets its whole numbers in the table as
        levels. Where LightGBM has written underscores for blanks in column names, the names get their blanks back.
        """
        blanks = {re.sub(r"\s", "_", name): name for name in table if re.search(r"\s", name)}
        own = {name: blanks[name] for name in self.names or () if name not in table and name in blanks}
        if own and self.input is Input.RAW and self.format is Format.LIGHTGBM:
            return self._renamed(own).over(table)
        levels = dict(self.levels)
        for name in self.numbers & table.keys() if self.groups else ():
            found = {re.sub(r"\.0*$", "", text.strip()) for text in table[name]} - {""}
            known = next((group for group in self.groups if found == set(group)), None)
            if known is not None:
                levels[name] = known
        facts = replace(self, levels=levels, numbers=self.numbers - levels.keys(), groups=())
        whole = {name: _whole(table[name]) for name in self.coded & table.keys()}
        return facts.with_numbers({name: found for name, found in whole.items() if found})

    def _renamed(self, own: Mapping[str, str]) -> "ModelFacts":
        """The same facts with other names of columns of the table."""

        def named(found: Mapping[str, Any]) -> dict[str, Any]:
            return {own.get(name, name): value for name, value in found.items()}

        keys = ("numbers", "coded", "imputed", "knows_missing", "saw_all", "tolerant", "ordered")
        sets: dict[str, Any] = {key: frozenset(own.get(name, name) for name in getattr(self, key)) for key in keys}
        return replace(
            self, names=tuple(own.get(name, name) for name in self.names or ()), levels=named(self.levels),
            numbered_levels=named(self.numbered_levels), codes=named(self.codes),
            saw_missing=None if self.saw_missing is None else frozenset(own.get(n, n) for n in self.saw_missing),
            **sets,
        )  # fmt: skip

    def with_numbers(self, whole: Mapping[str, set[int]]) -> "ModelFacts":
        """The facts with levels for columns whose levels are whole numbers in the records and only codes in the file.

        A code is either the whole number itself, or its position among the sorted numbers, from 0: codes 0 to 4 for
        levels 1 to 5.

        Parameters
        ----------
        whole : by column name, the distinct whole numbers in the records
        """
        if not whole:
            return self
        codes = {name: set(self.numbered_levels.get(name, ())) for name in whole}
        alike = all(found == set(range(len(found))) for found in whole.values())
        as_positions = all(codes[name] <= set(range(len(found))) for name, found in whole.items())
        as_numbers = all(
            codes[name] <= found if self.all_codes else max(codes[name], default=0) <= max(found)
            for name, found in whole.items()
        )
        numbers, positions = {"codes": "numbers"}, {"codes": "positions"}
        ways = (numbers,) if alike or not as_positions else (numbers, positions) if as_numbers else (positions,)
        known = {
            name: found | (codes[name] if self.all_codes and ways[0] is numbers else set())
            for name, found in whole.items()
        }
        ordered = {name: sorted(found, key=lambda code: (code < 0, code)) for name, found in known.items()}
        levels = {**self.levels, **{name: tuple(map(str, found)) for name, found in ordered.items()}}
        return replace(
            self, levels=levels, numbers=self.numbers - levels.keys(), coded=self.coded - whole.keys(), choices=ways,
            undecided="whether the codes of levels are these numbers or their positions" if len(ways) > 1 else "",
        )  # fmt: skip


def _whole(texts: Sequence[str]) -> set[int]:
    """The whole numbers of a column; none where it has others, or texts."""
    found = {re.sub(r"\.0*$", "", text.strip()) for text in texts} - ABSENT
    return {int(text) for text in found} if all(re.fullmatch(r"-?[0-9]{1,15}", text) for text in found) else set()


def unreadable(file: str, what: str) -> ModelRefused:
    """The error that refuses a file which cannot be read as `what`, such as "a LightGBM model"."""
    return ModelRefused(f"{file} is not {what}, or it is damaged or cut off: save the model again")
