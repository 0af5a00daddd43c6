"""Reference records from CSV: the same numbers as JSON records, and every bad cell."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from app.errors import Fault
from app.recourse.features import Feature, FeatureSpace, fit_encoding
from app.registry.reference import MAX_CELL_FAULTS, read_reference
from tests.registry.loan import FEATURES, ModelDirectory

PARSED = TypeAdapter(tuple[Feature, ...]).validate_python(FEATURES)
SPACE = FeatureSpace(fit_encoding(PARSED, np.zeros((1, len(PARSED))), "none"))

HEADER = "age,income,amount,savings,guarantor,housing\n"
GOOD = "30,1000.5,2000,some,true,owned\n"


def faults_of(path: Path, content: str) -> list[Fault]:
    path.write_text(content)
    rows_raw, faults = read_reference(path, PARSED)
    assert rows_raw is None
    return faults


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reference.csv"


def test_rows_are_those_of_the_same_json_records(model: ModelDirectory) -> None:
    rows_raw, faults = read_reference(model.write() / "reference.csv", PARSED)
    assert not faults
    np.testing.assert_array_equal(rows_raw, SPACE.read_many(model.records, pointer=""))


def test_other_columns_order_blanks_and_spreadsheet_marks_do_not_matter(path: Path) -> None:
    path.write_text(
        "\ufefflabel, housing,guarantor,savings,amount,income,age\r\n\r\n"
        '1, owned,true,some,2000, 1000.5,"30"\r\n0,free,0,none,1,2,18\r\n\r\n',
        encoding="utf-8",
    )
    rows_raw, faults = read_reference(path, PARSED)
    assert not faults
    np.testing.assert_array_equal(rows_raw, [[30, 1000.5, 2000, 1, 1, 1], [18, 2, 1, 0, 0, 2]])


def test_every_bad_cell_is_named_with_line_and_column(path: Path) -> None:
    faults = faults_of(path, HEADER + GOOD + '17,x,nan,little,maybe,"ren,ted"\n' + GOOD + "30.5,,-1,some,true,owned\n")
    assert {fault.pointer: fault.detail for fault in faults} == {
        "/reference/1/age": "line 3: must be at least 18",
        "/reference/1/income": "line 3: must be a number",
        "/reference/1/amount": "line 3: must be a number, and finite",
        "/reference/1/savings": 'line 3: must be one of "none", "some", "much"',
        "/reference/1/guarantor": "line 3: must be one of false, true",
        "/reference/1/housing": 'line 3: must be one of "rented", "owned", "free"',
        "/reference/3/age": "line 5: must be a whole number",
        "/reference/3/income": "line 5: must be a number",
        "/reference/3/amount": "line 5: must be at least 0",
    }


def test_of_very_many_bad_cells_the_first_are_named_and_all_are_counted(path: Path) -> None:
    faults = faults_of(path, HEADER + "1,2,3,some,true,owned\n" * 1_000)
    assert faults == [Fault("/reference/0/age", "lines 2, 3, 4, 5, 6 and 995 more: must be at least 18")]
    faults = faults_of(path, HEADER + "30,1000\n" * 1_000)
    assert len(faults) == MAX_CELL_FAULTS + 1
    assert faults[0].pointer == "/reference/0"
    assert faults[-1] == Fault("/reference", f"and {1_000 - MAX_CELL_FAULTS} more, 1000 in all")


def test_missing_and_repeated_columns_are_named_along_with_bad_cells(path: Path) -> None:
    faults = faults_of(path, "age,age,amount,savings,guarantor,housing\n" + "1,1,-1,some,true,owned\n" * 2)
    assert [fault.detail for fault in faults] == [
        'has no column "income"; its header has age, age, amount, savings, guarantor, housing',
        'has the column "age" 2 times',
        "line 2: must be at least 0",
        "line 3: must be at least 0",
    ]


OUTCOME = 'must be one of "0", "1"; write 1 where the outcome was favourable, else 0'


def test_true_outcomes_are_0_or_1_and_nothing_else(path: Path) -> None:
    lines = [f"{GOOD.strip()},{cell}" for cell in ("1", " 0 ", "2", "", "true", "1.0")]
    path.write_text("\n".join([HEADER.strip() + ",repaid", *lines]) + "\n")
    _, faults = read_reference(path, PARSED, "repaid")
    assert faults == [Fault(f"/reference/{i}/repaid", f"line {i + 2}: {OUTCOME}") for i in (2, 3, 4, 5)]
    path.write_text("\n".join([HEADER.strip() + ",repaid", *lines[:2]]) + "\n")
    table, faults = read_reference(path, PARSED, "repaid")
    assert not faults
    assert table is not None
    assert table[:, -1].tolist() == [1, 0]
    without, _ = read_reference(path, PARSED)
    np.testing.assert_array_equal(table[:, :-1], without)


def test_ragged_lines_are_named(path: Path) -> None:
    faults = faults_of(path, HEADER + GOOD + "30,1000\n" + GOOD)
    assert faults == [Fault("/reference/1", "line 3: has 2 cells, the header 6")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "not with nothing; write age,income"),
        (HEADER + GOOD, "needs at least two records"),
        (HEADER + '"30,1', "cannot be read as CSV"),
    ],
)
def test_what_is_no_table_is_refused(path: Path, content: str, sentence: str) -> None:
    faults = faults_of(path, content)
    assert any(sentence in fault.detail for fault in faults), faults
    assert {fault.pointer for fault in faults} == {"/reference"}


def test_other_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "reference.parquet").write_bytes(b"PAR1")
    assert read_reference(tmp_path / "reference.parquet", PARSED)[1] == [Fault("/reference", "must be a .csv file")]
