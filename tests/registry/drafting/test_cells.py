"""Numbers as lenders write them: a draft reads them, or names the cell; its own records are accepted row by row."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.api.table_rows import CsvTable
from app.errors import ModelRefused
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.questions import Undecided
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel
from tests.optional import library
from tests.registry.drafting.loans import Made, loans, xgboost_model

Write = Callable[[Path, Made], None]


def english(value: float) -> str:
    return f"{value:,.2f}"


def german(value: float) -> str:
    return english(value).translate(str.maketrans(",.", ".,"))


def table(path: Path, made: Made, delimiter: str = ",", **how: Callable[[float], str]) -> None:
    """The records, with the columns of `how` written in other ways."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(made.columns)
        writer.writerows(
            [how.get(name, str)(value) for name, value in zip(made.columns, row, strict=True)] for row in made.rows()
        )


WAYS: dict[str, Callable[[Path, Made], None]] = {
    "decimal commas": lambda path, made: table(path, made, ";", income=german, dti=german, rate=german),
    "groups of digits": lambda path, made: table(path, made, income=english),
    "dollars": lambda path, made: table(path, made, income=lambda value: f"${english(value)}"),
    "euros": lambda path, made: table(path, made, "\t", income=lambda value: f"{german(value)} €", dti=german,
                                      rate=german),
    "percent": lambda path, made: table(path, made, rate=lambda value: f"{value:.2f}%"),
    "percent and commas": lambda path, made: table(path, made, ";", rate=lambda value: f"{german(value)} %", dti=german,
                                                   income=german),
    "spaces": lambda path, made: table(path, made, ";", income=lambda value: english(value).replace(",", " ")),
}  # fmt: skip


def registered(tmp_path: Path, data: Path, made: Made, **answers: str) -> LoadedModel:
    wish = Wish(data=data, model=xgboost_model(tmp_path, made), label="outcome", favourable="1", answers=answers)
    draft(wish, tmp_path / "drafted", Trust())
    return Registry(tmp_path / "store", Trust()).register(tmp_path / "drafted").load()


@pytest.mark.parametrize("way", WAYS)
def test_a_table_is_read_as_its_lender_writes_it(tmp_path: Path, way: str) -> None:
    library("xgboost")
    made = loans()
    data = tmp_path / "loans.csv"
    WAYS[way](data, made)
    answers = {"percent.rate": "number"} if "percent" in way else {}
    model = registered(tmp_path, data, made, **answers)
    np.testing.assert_allclose(model.black_box.probability(model.reference.scores), made.scores, atol=1e-6)
    rows = CsvTable(io.BytesIO(data.read_bytes()), model.registered.space.schema).rows()
    found = [model.registered.space.read(row["applicant"]) for row in rows]
    np.testing.assert_allclose(np.array(found), model.reference.rows_raw)


def test_what_a_model_takes_for_a_percentage_is_asked(tmp_path: Path) -> None:
    library("xgboost")
    made = loans()
    WAYS["percent"](tmp_path / "loans.csv", made)
    with pytest.raises(Undecided) as asked:
        registered(tmp_path, tmp_path / "loans.csv", made)
    assert [question.name for question in asked.value.questions] == ["percent.rate"]


def test_a_share_is_drafted_as_the_model_takes_it(tmp_path: Path) -> None:
    library("xgboost")
    made = loans()
    shares = made.with_column("rate", made.column("rate") / 100)
    table(tmp_path / "loans.csv", made, rate=lambda value: f"{value:.2f}%")
    model = registered(tmp_path, tmp_path / "loans.csv", shares, **{"percent.rate": "share"})
    np.testing.assert_allclose(model.black_box.probability(model.reference.scores), shares.scores, atol=1e-6)


@pytest.mark.parametrize(
    "odd", ["inf", "-inf", "1_000", "\u0661\u0662", "12 months", "0x10", "1e30", "2019-03-01", "5%"]
)
def test_one_odd_cell_is_named_and_turns_no_column_into_levels(tmp_path: Path, odd: str) -> None:
    library("xgboost")
    made = loans()
    rows = [list(map(str, row)) for row in made.rows()]
    rows[7][1] = odd
    (tmp_path / "loans.csv").write_text("\n".join(",".join(row) for row in [list(made.columns), *rows]))
    with pytest.raises(ModelRefused, match=rf'"dti" .*1 cell is none, in line 9 of loans\.csv: {odd}'):
        registered(tmp_path, tmp_path / "loans.csv", made)


def test_points_and_commas_in_one_table_are_refused(tmp_path: Path) -> None:
    library("xgboost")
    made = loans()
    table(tmp_path / "loans.csv", made, ";", income=german)
    with pytest.raises(ModelRefused, match=r"loans\.csv has both .* write all of them with a decimal point"):
        registered(tmp_path, tmp_path / "loans.csv", made)


def test_numbers_that_are_read_two_ways_are_asked_about(tmp_path: Path) -> None:
    library("xgboost")
    made = loans()
    thousands = made.with_column("income", 1000.0 * np.arange(1, 1 + len(made.scores)) % 900_000 + 1_000.0)
    thousands = thousands.with_column("dti", np.round(thousands.column("dti")))
    thousands = thousands.with_column("rate", np.round(thousands.column("rate")))
    whole = {name: lambda value: str(int(value)) for name in ("dti", "rate")}
    table(tmp_path / "loans.csv", thousands, ";", income=lambda value: german(value)[:-3], **whole)
    with pytest.raises(Undecided, match="decimal point or a decimal comma"):
        registered(tmp_path, tmp_path / "loans.csv", thousands)
    model = registered(tmp_path, tmp_path / "loans.csv", thousands, decimal="comma")
    np.testing.assert_allclose(model.black_box.probability(model.reference.scores), thousands.scores, atol=1e-6)
