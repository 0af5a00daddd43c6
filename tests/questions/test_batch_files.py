"""Batches from file to file: `recourse batch` as people use it, and the formats."""

import csv
import errno
import json
import math
import os
import signal
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.api.table_rows import Reader, fault_of_heading
from app.cli.common import CommandError
from app.questions import batch_files
from app.questions.batch_command import batch
from app.questions.batch_files import Batch, BatchRefused
from app.recourse.features import Feature, FeatureType
from app.registry.registry import Registry
from tests.conftest import until
from tests.jobs.test_batches import same
from tests.optional import library
from tests.registry.loan import loan_records, make_linear
from tests.remote.serving import make_remote, shared
from tests.test_cli import COMMAND, ROOT, Run, environment, refused, run, run_afresh

__all__ = ["environment", "run", "run_afresh"]

RECORDS = loan_records(45, seed=3)

COPIES = 16
"""Of these, in a batch that shall still be under way when it is stopped, however busy the machine is."""

TORN = b'{"one":1}\n{"half of a li'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with the same applicants in lines and in a table; the model is registered."""
    Registry(tmp_path / "store").register(make_linear(tmp_path / "source").write())
    rows = [{"reference": f"case-{i}", "applicant": record} for i, record in enumerate(RECORDS)]
    (tmp_path / "in.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (tmp_path / "in.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["reference", *RECORDS[0]])
        writer.writeheader()
        writer.writerows({"reference": f"case-{i}", **record} for i, record in enumerate(RECORDS))
    return tmp_path


def command(folder: Path, source: str, output: str, *more: str) -> list[str]:
    return ["batch", "--model", "loan", "--input", str(folder / source), "--output", str(folder / output), *more]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_lines_and_tables_in_have_the_same_lines_out(run: Run, folder: Path) -> None:
    done = run(*command(folder, "in.ndjson", "one.ndjson", "--seed", "4"))
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "45 applicants")
    assert "45/45" in done.stderr
    (folder / "question.json").write_text(json.dumps({"seed": 4, "constraints": {}}))
    run(*command(folder, "in.csv", "two.ndjson", "--seed", "4", "--question", str(folder / "question.json")))
    one, two = read(folder / "one.ndjson"), read(folder / "two.ndjson")
    assert [same(line) for line in one] == [same(line) for line in two]
    assert [line["reference"] for line in one] == [f"case-{i}" for i in range(45)]
    assert [line["seed"] for line in one] == list(range(4, 49))
    assert {path.name for path in folder.glob("*.part*")} == set()


def test_a_table_out_has_a_row_for_each_applicant_and_says_what_is_wrong(run: Run, folder: Path) -> None:
    with (folder / "in.csv").open("a") as file:
        file.write("broken,old,1,2,none,maybe,rented\n")
    done = run(*command(folder, "in.csv", "out.csv"))
    assert done.stdout.startswith("46 applicants: ")
    assert ", 1 refused." in done.stdout
    with (folder / "out.csv").open(newline="") as file:
        *answers, broken = csv.DictReader(file)
    assert len(answers) == 45
    (found, *_) = [row for row in answers if row["status"] == "found"]
    record = RECORDS[int(found["reference"].removeprefix("case-"))]
    assert found["changes"]
    assert any(found[f"to.{name}"] != str(value) for name, value in record.items())
    assert (broken["status"], broken["reason"]) == ("refused", "invalid-record")
    assert "/applicant/age" in broken["detail"]
    assert "/applicant/guarantor" in broken["detail"]


@pytest.mark.parametrize("more", [[], ["--verbatim"]])
def test_a_spreadsheet_computes_nothing_of_a_table(run: Run, folder: Path, more: list[str]) -> None:
    references = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-1", "\t=1", " =1", "plain"]
    with (folder / "odd.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["reference", *RECORDS[0]])
        writer.writeheader()
        writer.writerows({"reference": r, **RECORDS[0]} for r in references)
    run(*command(folder, "odd.csv", "out.csv", *more))
    with (folder / "out.csv").open(newline="") as file:
        found = [row["reference"] for row in csv.DictReader(file)]
    computed = [text for text in found if text.strip()[:1] in ("=", "+", "-", "@")]
    assert len(found) == len(references)
    assert found[-1] == "plain"
    assert bool(computed) == bool(more)
    assert found[:4] == (references[:4] if more else [f"'{text}" for text in references[:4]])


@pytest.mark.slow
def test_a_table_is_judged_by_its_columns_once(run: Run, folder: Path) -> None:
    heading, *lines = (folder / "in.csv").read_text().splitlines()
    (folder / "more.csv").write_text("\n".join([f"{heading},branch", *(f"{line},Leeds" for line in lines)]))
    done = run(*command(folder, "more.csv", "out.csv"))
    assert "Ignored columns that are not features of loan: branch." in done.stderr
    assert done.returncode == 0
    assert "refused" not in done.stdout
    (folder / "less.csv").write_text("\n".join([heading.replace("age", "Age"), *lines]))
    assert "less.csv lacks these columns, which the model needs: age." in refused(
        run(*command(folder, "less.csv", "none.csv"))
    )
    assert not list(folder.glob("none*"))


@pytest.mark.slow
def test_a_batch_of_which_nothing_was_answered_has_failed(run: Run, folder: Path) -> None:
    (folder / "none.ndjson").write_text("{}\n{}\n")
    done = run(*command(folder, "none.ndjson", "out.ndjson"))
    assert (done.returncode, done.stdout.split(" Written")[0]) == (1, "2 applicants: 2 refused.")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"reference,age\nM\xfcller,3\n", "is not UTF-8"),
        (b"age\n" + b"1" * 200_000 + b"\n", "field larger than field limit"),
        (b'one,"30\ntwo,31\n', "unexpected end of data"),  # else the second row would be a part of the first one
    ],
)
def test_a_table_that_cannot_be_read_leaves_nothing(run: Run, folder: Path, content: bytes, sentence: str) -> None:
    heading = (folder / "in.csv").read_bytes().splitlines()[0]
    (folder / "bad.csv").write_bytes(heading + b"\n" + content)
    assert sentence in refused(run(*command(folder, "bad.csv", "out.csv")))
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_table_of_another_separator_is_read(run: Run, folder: Path, separator: str) -> None:
    lines = "".join((folder / "in.csv").read_text().splitlines(keepends=True)[:4])
    (folder / "one.csv").write_text(lines)
    (folder / "other.csv").write_text(lines.replace(",", separator).replace(".", "," if separator == ";" else "."))
    for name in ("one", "other"):
        assert run(*command(folder, f"{name}.csv", f"{name}.ndjson")).returncode == 0
    one, other = read(folder / "one.ndjson"), read(folder / "other.ndjson")
    assert [same(line) for line in other] == [same(line) for line in one]


def test_a_table_need_not_have_what_is_derived() -> None:
    number = FeatureType.CONTINUOUS
    features = [
        Feature(name="debt", type=number),
        Feature(name="income", type=number),
        Feature(name="ratio", type=number, derived="debt / income"),
    ]
    assert fault_of_heading(["reference", "income", "debt"], features) == ""
    assert fault_of_heading(["income", "ratio"], features) == "lacks these columns, which the model needs: debt."


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_with_a_column_twice_is_refused(run: Run, folder: Path, suffix: str) -> None:
    """Else the second one would be taken, and the advice be about other people."""
    heading, *lines = (folder / "in.csv").read_text().splitlines()
    columns, cells = [*heading.split(","), "age"], [[*line.split(","), "99"] for line in lines]
    if suffix == ".csv":
        (folder / "twice.csv").write_text("\n".join(",".join(row) for row in [columns, *cells]))
    else:
        pa = library("pyarrow")
        table = pa.Table.from_arrays([pa.array(column) for column in zip(*cells, strict=True)], names=columns)
        library("pyarrow.parquet").write_table(table, folder / "twice.parquet")
    done = refused(run(*command(folder, f"twice{suffix}", "out.ndjson")))
    assert f"twice{suffix} has these columns twice: age." in done
    assert not list(folder.glob("out*"))


def test_a_full_disk_is_told_with_the_file_and_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system names no file where one that is open cannot be written."""

    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("RECOURSE_MODELS_STORE", str(folder / "store"))
    monkeypatch.setattr(batch_files, "compute", full)
    with pytest.raises(CommandError) as caught:
        batch(source=folder / "in.csv", output=folder / "out.ndjson", model="loan")
    assert str(caught.value) == (
        f"{folder / 'out.ndjson'} cannot be written: No space left on device. Finished answers are in "
        f"{folder / 'out.ndjson.part'}; --resume continues from there."
    )


def test_a_broken_parquet_file_leaves_nothing(run: Run, folder: Path) -> None:
    library("pyarrow.parquet")
    (folder / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    assert "bad.parquet cannot be read" in refused(run(*command(folder, "bad.parquet", "out.csv")))
    assert not list(folder.glob("out*"))


@pytest.mark.slow
def test_a_remote_model_is_asked_where_it_is(run: Run, folder: Path) -> None:
    server = shared()
    server.behave()
    allowed = {"RECOURSE_REMOTE_HOSTS": f"http://127.0.0.1:{server.port}=127.0.0.1"}
    source = make_remote(folder / "remote", server).write(id="remote")
    assert run("models", "register", source, **allowed).returncode == 0
    done = run(*command(folder, "in.ndjson", "out.ndjson"), "--model", "remote", **allowed)
    assert done.returncode == 0, done.stderr
    assert {line["status"] for line in read(folder / "out.ndjson")} == {"found", "already_favourable"}


@pytest.mark.slow
def test_what_was_stopped_goes_on_with_the_same_answers(environment: dict[str, str], run: Run, folder: Path) -> None:
    many = folder / "in.ndjson"
    many.write_text(many.read_text() * COPIES)
    part = folder / "out.ndjson.part"
    process = subprocess.Popen(
        [*COMMAND, *command(folder, "in.ndjson", "out.ndjson")], cwd=ROOT, stdout=subprocess.PIPE,
        env=environment | {"RECOURSE_LANES_BOUNDS": "1"}, stderr=subprocess.PIPE, text=True,
        # A shell without job control ignores the signal for what is in its background, and so may these tests.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    until(lambda: part.exists() and part.stat().st_size > 0)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "--resume" in stderr
    assert "Traceback" not in stderr
    begun = part.read_bytes()
    assert 0 < begun.count(b"\n") < 45 * COPIES
    with part.open("ab") as file:
        file.write(b'{"id":"torn')
    assert f"{begun.count(10):,} rows are done" in refused(run(*command(folder, "in.ndjson", "out.ndjson")))
    assert "another input" in refused(run(*command(folder, "in.ndjson", "out.ndjson", "--resume", "--seed", "1")))
    assert run(*command(folder, "in.ndjson", "out.ndjson", "--resume")).returncode == 0
    whole = read(folder / "out.ndjson")
    assert [line["seed"] for line in whole] == list(range(45 * COPIES))
    assert "".join(line + "\n" for line in (folder / "out.ndjson").read_text().splitlines()).startswith(begun.decode())
    assert "exists already" in refused(run(*command(folder, "in.ndjson", "out.ndjson", "--resume")))


def begun(folder: Path) -> Batch:
    """A batch with a finished row and the beginning of a second one."""
    model = Registry(folder / "store").find("loan")
    batch = Batch(source=folder / "in.ndjson", output=folder / "out.ndjson", model=model, payload={"seed": 0})
    with batch.begun(resume=False) as progress:
        assert progress == (0, 45)
        batch.part.write_bytes(TORN)
    return batch


def test_a_batch_in_progress_is_left_alone_by_a_second_start(folder: Path) -> None:
    batch = begun(folder)
    with batch.begun(resume=True):
        batch.part.write_bytes(TORN)
        for resume in (False, True):
            with pytest.raises(BatchRefused, match="Another process is writing"), batch.begun(resume=resume):
                pass
        assert batch.part.read_bytes() == TORN


def test_a_refused_start_changes_nothing(folder: Path) -> None:
    batch = begun(folder)
    with pytest.raises(BatchRefused, match="1 rows are done"), batch.begun(resume=False):
        pass
    with pytest.raises(BatchRefused, match="another input"), replace(batch, payload={"seed": 1}).begun(resume=True):
        pass
    assert batch.part.read_bytes() == TORN
    with batch.begun(resume=True) as progress:
        assert progress == (1, 45)
    assert batch.part.read_bytes() == b'{"one":1}\n'


@pytest.mark.parametrize("removed", ["part", "asked"])
def test_a_batch_of_which_a_file_was_removed_starts_again(folder: Path, removed: str) -> None:
    batch = begun(folder)
    getattr(batch, removed).unlink()
    again = replace(batch, payload={"seed": 1})
    with again.begun(resume=False) as progress:
        assert progress == (0, 45)
        assert batch.part.read_bytes() == b""
        batch.part.write_bytes(TORN)
    with again.begun(resume=True) as progress:
        assert progress == (1, 45)


@pytest.mark.parametrize(
    ("source", "output", "more", "sentence"),
    [
        ("in.xlsx", "out.ndjson", [], "must end in"),
        pytest.param("in.ndjson", "out.txt", [], "must end in", marks=pytest.mark.slow),
        ("pipe.ndjson", "out.ndjson", [], "it is a pipe or a device, not a file"),
        ("in.ndjson", "out.ndjson", ["--question", "/dev/null"], "it is a pipe or a device, not a file"),
        pytest.param("nothing.ndjson", "out.ndjson", [], "No such file", marks=pytest.mark.slow),
        ("in.ndjson", "out.ndjson", ["--model", "unknown"], "is not registered"),
        pytest.param("in.ndjson", "out.ndjson", ["--seed", "-1"], "/seed", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    run: Run, folder: Path, source: str, output: str, more: list[str], sentence: str
) -> None:
    os.mkfifo(folder / "pipe.ndjson")
    assert sentence in refused(run(*command(folder, source, output, *more)))
    assert not list(folder.glob("out*"))


@pytest.mark.slow
def test_parquet_needs_a_library_that_is_named(run_afresh: Run, folder: Path) -> None:
    (folder / "pyarrow.py").write_text("raise ImportError")
    done = run_afresh(*command(folder, "in.ndjson", "out.parquet"), PYTHONPATH=str(folder))
    assert "pip install pyarrow" in refused(done)


@pytest.mark.slow
def test_parquet_in_and_out(run: Run, folder: Path) -> None:
    pa, parquet = library("pyarrow"), library("pyarrow.parquet")
    rows = [{"reference": f"case-{i}", **record} for i, record in enumerate(RECORDS)]
    parquet.write_table(pa.Table.from_pylist(rows), folder / "in.parquet")
    run(*command(folder, "in.parquet", "out.parquet"))
    run(*command(folder, "in.csv", "out.csv"))
    with (folder / "out.csv").open(newline="") as file:
        expected = [row["changes"] or None for row in csv.DictReader(file)]
    table = parquet.read_table(folder / "out.parquet").to_pylist()
    assert [row["changes"] for row in table] == expected
    assert {type(row["to.guarantor"]) for row in table if row["status"] == "found"} == {bool}


def test_cells_are_read_as_the_feature_takes_them() -> None:
    features = [
        Feature(name="age", type=FeatureType.INTEGER, center=0.0, scale=1.0),
        Feature(name="owner", type=FeatureType.BINARY, center=0.0, scale=1.0),
        Feature(name="grade", type=FeatureType.CATEGORICAL, categories=("1", "true")),
    ]
    row = Reader(features).row({"age": "31", "owner": "True", "grade": "1", "reference": "7"})
    assert row == {"applicant": {"age": 31.0, "owner": True, "grade": "1"}, "reference": "7"}
    row = Reader(features).row({"age": "old", "owner": "", "grade": "true", "reference": ""})
    assert row == {"applicant": {"age": "old", "grade": "true"}, "reference": None}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2, "2"), (2.0, "2"), (Decimal("2.00"), "2"), (3, 3), (2.5, 2.5), (math.inf, math.inf), (True, True), ("2", "2")],
)
def test_a_code_in_a_typed_table_is_the_level_that_a_draft_of_it_has(value: Any, expected: object) -> None:
    """A draft of a Parquet file has whole numbers that an encoder takes apart as categories, in text."""
    region = Feature(name="region", type=FeatureType.CATEGORICAL, categories=("1", "2"))
    read = Reader([region]).row({"region": value})["applicant"]["region"]
    assert (read, type(read)) == (expected, type(expected))


def test_a_decimal_of_a_database_is_a_number() -> None:
    income = Feature(name="income", type=FeatureType.INTEGER, center=0.0, scale=1.0)
    read = Reader([income]).row({"income": Decimal("28500.00"), "reference": Decimal(7)})
    assert read == {"applicant": {"income": 28500.0}, "reference": "7"}
    assert isinstance(read["applicant"]["income"], float)
    assert Reader([income]).row({"income": Decimal("NaN")})["applicant"] == {}


@pytest.mark.parametrize("text", ["1_2", "0x1F", "1,5", "nan", "infinity", "-inf", "1e999"])
def test_a_cell_that_is_no_plain_number_is_refused(text: str) -> None:
    income = Feature(name="income", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0)
    with pytest.raises(ValueError, match="must be a number"):
        income.parse(Reader([income]).row({"income": text})["applicant"]["income"])


@pytest.mark.parametrize("text", ["12", " 12 ", "+12", "1.2e1", "12\xa0", "\uff11\uff12"])
def test_a_cell_is_read_as_a_spreadsheet_may_write_it(text: str) -> None:
    income = Feature(name="income", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0)
    assert Reader([income]).row({"income": text})["applicant"]["income"] == 12.0
