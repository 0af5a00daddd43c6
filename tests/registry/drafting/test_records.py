"""Records from Parquet are those of the same table as CSV."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from app.errors import ModelRefused
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.records import read_records
from app.registry.trust import Trust
from tests.optional import library
from tests.registry.drafting.lender import lender, trained_pipeline

library("pyarrow")


def test_a_draft_is_the_same_from_parquet(tmp_path: Path) -> None:
    trained = trained_pipeline(missing=True)
    model = trained.write(tmp_path)
    trained.lender.write(tmp_path / "loans.csv")
    table = trained.lender.frame().astype({"housing": "category"})
    table.sample(frac=1.0, random_state=0).sort_index().to_parquet(tmp_path / "loans.parquet")
    drafts = []
    for name in ("loans.csv", "loans.parquet"):
        out = tmp_path / name.replace(".", "-")
        draft(
            Wish(data=tmp_path / name, model=model, label="outcome", favourable="good", id="loan"),
            out,
            Trust(pickle=True),
        )
        drafts.append([(out / file).read_text() for file in ("model.yaml", "reference.csv")])
    (of_csv, reference_of_csv), (of_parquet, reference) = drafts
    assert of_parquet.replace("loans.parquet", "loans.csv") == of_csv
    assert reference == reference_of_csv


def test_values_are_texts_as_a_csv_would_have_them(tmp_path: Path) -> None:
    pa, parquet = library("pyarrow"), library("pyarrow.parquet")
    columns = {
        "single": pa.array(np.array([0.1, 2.5], dtype=np.float32)),
        "double": pa.array([0.1, float("nan")]),
        "whole": pa.array([3, None]),
        "money": pa.array([Decimal("10.50"), Decimal("2.00")]),
        "yes": pa.array([True, None]),
        "text": pa.array(["a", None]).dictionary_encode(),
        "day": pa.array([date(2026, 3, 1), None]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "loans.parquet")
    found = read_records(tmp_path / "loans.parquet").columns
    assert found == {
        "single": ["0.1", "2.5"], "double": ["0.1", ""], "whole": ["3", ""], "money": ["10.50", "2.00"],
        "yes": ["true", ""], "text": ["a", ""], "day": ["2026-03-01", ""],
    }  # fmt: skip


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loans.parquet"
    lender().frame().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelRefused, match=r"is not a Parquet file, or cut off"):
        read_records(path)


def test_a_column_twice_is_named_in_parquet_too(tmp_path: Path) -> None:
    pa, parquet = library("pyarrow"), library("pyarrow.parquet")
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["age", "age"])
    parquet.write_table(table, tmp_path / "loans.parquet")
    with pytest.raises(ModelRefused, match='has the column "age" more than once'):
        read_records(tmp_path / "loans.parquet")
