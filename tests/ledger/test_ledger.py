"""The ledger on both databases: what is written is found, erased and proven."""

import os
import random
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.ledger.chain import FIRST, Entry, Kind
from app.ledger.ledger import Ledger
from app.ledger.promises import Promises
from app.ledger.proof import Broken
from app.store.engine import open_engine, overwrite_log, writing
from app.store.migrate import VERSIONS, upgrade
from app.store.tables import checks, entries, metadata, personal_data
from app.store.timestamps import timestamp
from tests.conftest import until
from tests.forks import forks
from tests.ledger.records import new_record

NOW = datetime(2030, 2, 1, tzinfo=UTC)


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """Six recourses, the third of them erased by a seventh entry."""
    ledger.append([new_record(number) for number in range(1, 5)])
    ledger.append([new_record(5)])
    ledger.append([new_record(6)])
    ledger.erase(["rec_0003"], "request", NOW)
    return ledger


def change(ledger: Ledger, statement: sa.Executable) -> None:
    """Somebody with access to the database does what the service never does."""
    with writing(ledger._engine) as connection:
        connection.execute(statement)


def test_the_same_recourse_is_recorded_once_and_stays_as_it_was(ledger: Ledger) -> None:
    """As of a request and its heir, in one group or in two; those of others in the group are recorded too."""
    ledger.append([new_record(1), new_record(2), new_record(2, answer=b"another"), new_record(3)])
    ledger.append([new_record(3, answer=b"another"), new_record(4), new_record(4)])
    for number in (2, 3):
        found = ledger.find(f"rec_{number:04}").personal_data
        assert found is not None
        assert found.answer == new_record(number).personal_data.answer
    proof = ledger.prove()
    assert (proof.entries, proof.broken) == (4, None)


def test_all_or_nothing_is_written(ledger: Ledger) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        ledger.append([new_record(1), new_record(2), new_record(3, at=None)])
    assert ledger.prove().entries == 0


def test_every_search_finds_what_a_plain_filter_finds(ledger: Ledger) -> None:
    """Of random entries, some erased and some checked, by random filters."""
    rng = random.Random(3)
    started = datetime(2030, 1, 1, tzinfo=UTC)
    given = [
        new_record(
            number,
            at=timestamp(started + timedelta(hours=number // 2)),
            model=rng.choice(["loan", "card"]),
            version=rng.choice("123"),
            status=rng.choice(["found", "found", "not_found"]),
            key=rng.choice(["k1", "k2"]),
            job=rng.choice([None, "job_1"]),
        )
        for number in range(90)
    ]
    ledger.append(given)
    erased = {one.id for one in given if rng.random() < 0.2}
    kept: dict[str, bool] = {}
    for name in ("loan", "card"):
        for version in ("7", "8"):
            numbers = {
                number: rng.random() < 0.5
                for number, one in enumerate(given, start=1)
                if one.model == name and one.status == "found" and rng.random() < 0.5
            }
            ledger.note_checks(name, version, "2030-02-01T00:00:00.000Z", numbers)
            kept |= {given[number - 1].id: found for number, found in numbers.items()}
        if name == "loan":
            ledger.erase(sorted(erased), "request", NOW)
    choices: dict[str, list[Any]] = {
        "model": ["loan", "card", "other"],
        "version": ["1", "3"],
        "status": ["found", "not_found", "already_favourable"],
        "key": ["k1", "k3"],
        "reference": ["case 1"],
        "job": ["job_1"],
        "kept": [True, False],
        "models": [{"loan"}, {"card", "other"}, {"loan", "card"}, set()],
        "since": [started + timedelta(hours=hours) for hours in (0, 7, 29, 60)],
        "until": [started + timedelta(hours=hours) for hours in (0, 8, 20, 90)],
        "before": ["rec_0080", "rec_0031", sorted(erased)[-1], "rec_none"],
    }
    plain = ("model", "version", "status", "key")
    seen = 0
    for _ in range(500):
        asked = {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.25}
        data = {name: asked[name] for name in ("reference", "job") if name in asked}
        expected = [
            (one.id, one.personal_data.reference, kept.get(one.id))
            for one in reversed(given)
            if one.id not in erased
            and all(getattr(one, name) == asked.get(name, getattr(one, name)) for name in plain)
            and all(getattr(one.personal_data, name) == value for name, value in data.items())
            and ("kept" not in asked or kept.get(one.id) is asked["kept"])
            and ("models" not in asked or one.model in asked["models"])
            and ("since" not in asked or one.at >= timestamp(asked["since"]))
            and ("until" not in asked or one.at < timestamp(asked["until"]))
            and ("before" not in asked or (asked["before"] != "rec_none" and one.id < asked["before"]))
        ]
        found = [(one.entry.id, one.reference, one.kept) for one in ledger.newest(9, **asked)]
        assert found == expected[:9], asked
        seen += bool(expected)
    assert seen > 130


def test_what_was_checked_is_erased_with_the_rest_also_by_the_release_before(filled: Ledger) -> None:
    filled.note_checks("loan", "2", "2030-02-01T00:00:00.000Z", {1: True, 2: False, 3: True, 9: True})
    counted = sa.select(sa.func.count()).select_from(checks)
    with filled._engine.connect() as connection:
        assert connection.scalar(counted) == 2  # the third was erased before, and there is no ninth
    change(filled, sa.delete(personal_data).where(personal_data.c.number == 1))
    filled.erase(["rec_0002"], "request", NOW)
    with filled._engine.connect() as connection:
        assert connection.scalar(counted) == 0


def test_a_list_does_not_read_the_answers(filled: Ledger) -> None:
    """Some kilobytes each, of which it shows nothing."""
    asked: list[str] = []
    sa.event.listen(filled._engine, "before_cursor_execute", lambda *said: asked.append(said[2]))
    (newest, *_) = filled.newest(9)
    assert (newest.entry, newest.reference) == (filled.find("rec_0006").entry, "case 0")
    listing, finding = (statement for statement in asked if statement.startswith("SELECT"))
    assert "ledger_particulars.answer" in finding
    assert "ledger_particulars.answer" not in listing


def test_promises_are_those_found_unexpired_and_not_erased(ledger: Ledger) -> None:
    ledger.append(
        [
            new_record(1), new_record(2), new_record(3, status="not_found"),
            new_record(4, expires_at="2030-01-15T00:00:00.000Z"), new_record(5, model="other"),
            new_record(6), new_record(7),
        ]
    )  # fmt: skip
    ledger.erase(["rec_0006"], "request", NOW)
    which = Promises(model="loan", as_of="2030-02-01T00:00:00.000Z")
    found = [record.entry.id for page in ledger.promises(which) for record in page]
    assert found == ["rec_0001", "rec_0002", "rec_0007"]
    assert ledger.count(which) == 3
    some = Promises(model="loan", as_of=which.as_of, since="2030-01-01T00:00:02.000Z", until="2030-01-01T00:00:07.000Z")
    assert [record.entry.id for page in ledger.promises(some) for record in page] == ["rec_0002"]
    assert ledger.count(some) == 1


def test_what_was_found_is_read_newest_first_also_expired(ledger: Ledger) -> None:
    more = [new_record(number) for number in range(10, 620)]
    ledger.append([new_record(1, expires_at="2020-01-01T00:00:00.000Z"), new_record(2, status="not_found"), *more])
    ledger.append([new_record(3, model="other"), new_record(4)])
    ledger.erase(["rec_0004"], "request", NOW)
    pages = list(ledger.newest_found("loan", 5000))
    assert [len(page) for page in pages] == [500, 111]
    assert [pages[0][0].entry.id, pages[0][-1].entry.id, pages[1][-1].entry.id] == ["rec_0619", "rec_0120", "rec_0001"]
    assert ledger.count_found("loan") == 611
    assert [len(page) for page in ledger.newest_found("loan", 501)] == [500, 1]
    assert list(ledger.newest_found("none", 5)) == []


def test_more_promises_than_are_read_at_once(ledger: Ledger) -> None:
    ledger.append([new_record(number) for number in range(1201)])
    which = Promises(model="loan", as_of="2030-02-01T00:00:00.000Z")
    assert [len(page) for page in ledger.promises(which)] == [500, 500, 201]
    assert ledger.prove().entries == 1201


def test_those_are_due_that_are_old_and_have_expired(ledger: Ledger) -> None:
    ledger.append([new_record(1), new_record(2), new_record(3, expires_at="2030-01-15T00:00:00.000Z")])
    given_before = datetime(2030, 1, 1, 0, 0, 2, tzinfo=UTC)
    later = datetime(2030, 5, 1, tzinfo=UTC)
    assert [due.entry.id for due in ledger.due(given_before=given_before, now=later, limit=9)] == ["rec_0001"]
    assert [due.entry.id for due in ledger.due(given_before=later, now=NOW, limit=9)] == ["rec_0003"]
    assert [due.entry.id for due in ledger.due(given_before=later, now=later, limit=2)] == ["rec_0001", "rec_0002"]
    assert [due.entry.id for due in ledger.due(given_before=later, now=later, limit=2, after=2)] == ["rec_0003"]
    ledger.erase(["rec_0002"], "request", NOW)
    found = ledger.due(given_before=later, now=later, limit=9)
    assert found == [ledger.find("rec_0001"), ledger.find("rec_0003")]


def test_looking_for_those_that_are_due_takes_no_longer_the_more_were_erased(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    upgrade(engine)
    ledger = Ledger(engine)
    later = datetime(2031, 1, 1, tzinfo=UTC)

    def steps() -> int:
        """How many instructions SQLite takes."""
        taken = 0

        def step() -> None:
            nonlocal taken
            taken += 1

        with engine.connect() as connection:
            assert connection.connection.driver_connection is not None
            connection.connection.driver_connection.set_progress_handler(step, 1)
        assert [due.entry.id for due in ledger.due(given_before=later, now=later, limit=9)] == ["rec_0000"]
        return taken

    ledger.append([new_record(0)])
    before = steps()
    ledger.append([new_record(number) for number in range(1, 1000)])
    ledger.erase([f"rec_{number:04}" for number in range(1, 1000)], "retention", NOW)
    assert 0 < steps() < before + 1000
    engine.dispose()


# --- erasing ---------------------------------------------------------------------------------------------------------


def test_erasing_leaves_that_something_was_given(filled: Ledger) -> None:
    erased = filled.find("rec_0003")
    assert (erased.personal_data, erased.erased_at, erased.entry.version) == (None, "2030-02-01T00:00:00.000Z", "1")
    assert filled.erase(["rec_0003", "rec_none"], "request", NOW) == 0
    proof = filled.prove()
    assert (proof.entries, proof.erased, proof.broken) == (7, 1, None)


def test_nothing_of_what_was_erased_is_left_in_the_files(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    upgrade(engine)
    ledger = Ledger(engine)
    ledger.append([new_record(1, reference="a sentinel", request=b"its request", answer=b"its answer"), new_record(2)])

    def left() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    assert all(word in left() for word in (b"a sentinel", b"its request", b"its answer"))
    ledger.erase(["rec_0001"], "request", NOW)
    assert not any(word in left() for word in (b"a sentinel", b"its request", b"its answer"))
    engine.dispose()


def test_what_was_erased_while_somebody_reads_is_overwritten_afterwards(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    upgrade(engine)
    ledger = Ledger(engine)
    ledger.append([new_record(1, answer=b"a sentinel")])
    with engine.connect() as reader:
        reader.execute(sa.select(entries)).all()
        assert ledger.erase(["rec_0001"], "request", NOW) == 1
        assert not overwrite_log(engine)
        assert b"a sentinel" in (tmp_path / "ledger.sqlite-wal").read_bytes()
    assert overwrite_log(engine)
    assert not any(b"a sentinel" in path.read_bytes() for path in tmp_path.iterdir())
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 5000
    engine.dispose()


# --- the chain -------------------------------------------------------------------------------------------------------


def test_an_empty_ledger_holds(ledger: Ledger) -> None:
    proof = ledger.prove()
    assert (proof.entries, proof.head, proof.broken) == (0, FIRST, None)


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        (sa.update(entries).where(entries.c.number == 2).values(status="not_found"), (2, "not as it was written")),
        (sa.update(entries).where(entries.c.number == 4).values(expires_at="2031"), (4, "not as it was written")),
        (sa.update(entries).where(entries.c.number == 5).values(hash="b" * 64), (5, "not as it was written")),
        (sa.update(personal_data).where(personal_data.c.number == 2).values(answer=b"{}"), (2, "other personal data")),
        (
            sa.update(personal_data).where(personal_data.c.number == 6).values(reference=None),
            (6, "other personal data"),
        ),
        (sa.delete(personal_data).where(personal_data.c.number == 5), (5, "lost its personal data")),
        (sa.delete(entries).where(entries.c.number == 3), (3, "is missing")),
        (sa.update(entries).where(entries.c.number == 7).values(number=8), (7, "is missing")),
        (sa.delete(entries).where(entries.c.number == 7), (3, "lost its personal data")),
    ],
)
def test_the_first_entry_that_was_tampered_with_is_named(
    filled: Ledger, statement: sa.Executable, broken: tuple[int, str]
) -> None:
    assert filled.prove().broken is None
    change(filled, statement)
    found = filled.prove().broken
    assert isinstance(found, Broken)
    assert found.number == broken[0]
    assert broken[1] in found.reason


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        (
            "update ledger_particulars set answer = replace(answer, '42', '43') where number = 5",
            (5, "other personal data"),
        ),
        ("update ledger_particulars set salt = hex(salt) where number = 5", (5, "other personal data")),
        ("update ledger_particulars set reference = x'00' where number = 5", (5, "other personal data")),
        ("update ledger_entries set kind = 'withdrawn' where number = 5", (5, "not as it was written")),
        ("update ledger_entries set model = x'00' where number = 5", (5, "not as it was written")),
        ("update ledger_entries set hash = x'00' where number = 5", (5, "not as it was written")),
        ("update ledger_entries set id = 5 where number = 5", (5, "not as it was written")),
    ],
)
def test_what_is_not_even_of_its_type_was_tampered_with(
    tmp_path: Path, statement: str, broken: tuple[int, str]
) -> None:
    """SQLite takes whatever it is given; `replace`, for one, makes text of bytes."""
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    upgrade(engine)
    ledger = Ledger(engine)
    ledger.append([new_record(number) for number in range(1, 7)])
    change(ledger, sa.text(statement))
    found = ledger.prove().broken
    engine.dispose()
    assert found
    assert found.number == broken[0]
    assert broken[1] in found.reason


def test_a_whole_chain_made_anew_is_missed_by_who_noted_the_end(ledger: Ledger) -> None:
    ledger.append([new_record(1), new_record(2)])
    head = ledger.prove().head
    ledger.append([new_record(3)])
    assert ledger.holds(head)
    change(ledger, sa.delete(personal_data))
    change(ledger, sa.delete(entries))
    ledger.append([new_record(2)])
    assert ledger.prove().broken is None
    assert not ledger.holds(head)


def test_data_that_is_back_after_it_was_erased_is_found(filled: Ledger) -> None:
    row = {"number": 3, "salt": b"0" * 32, "request": b"", "answer": b""}
    change(filled, sa.insert(personal_data).values(**row))
    found = filled.prove().broken
    assert found
    assert found.number == 3


# --- forgeries -------------------------------------------------------------------------------------------------------


def without_checks(ledger: Ledger) -> None:
    """Somebody with access to the database can also take away what refuses rows."""
    if ledger._engine.dialect.name == "postgresql":
        change(ledger, sa.text("ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_number"))
        change(ledger, sa.text("ALTER TABLE ledger_particulars DROP CONSTRAINT ledger_particulars_number_fkey"))
    else:
        for event in ("insert", "update"):
            change(ledger, sa.text(f"DROP TRIGGER ledger_entries_number_{event}"))


def forged(number: int, before: str = FIRST) -> tuple[dict[str, object], dict[str, object]]:
    """A row for each table, right in itself: what no applicant was ever given."""
    record, salt = new_record(number + 5_000), b"s" * 32
    facts = {name: getattr(record, name) for name in ("id", "at", "expires_at", "model", "version", "sha256", "status")}
    entry = Entry(number=number, kind=Kind.GIVEN, digest=record.personal_data.digest(salt), **facts)
    row = {name: getattr(entry, name) for name in Entry.__slots__} | {"hash": entry.hash(before), "key": None}
    data = record.personal_data
    personal = {"reference": data.reference, "job": data.job, "request": data.request, "answer": data.answer}
    return row, {"number": number, "salt": salt, **personal}


@pytest.mark.parametrize("number", [-(2**40), -3, -1, 0])
def test_a_row_that_is_served_is_walked_whatever_its_number(filled: Ledger, number: int) -> None:
    head = filled.prove().head
    without_checks(filled)
    row, personal = forged(number)
    change(filled, sa.insert(entries).values(**row))
    change(filled, sa.insert(personal_data).values(**personal))
    assert filled.find(str(row["id"])).personal_data is not None
    assert filled.holds(head)
    found = filled.prove().broken
    assert found
    assert (found.number, found.id) == (number, row["id"])
    assert "begin at 1" in found.reason


@pytest.mark.parametrize("number", [-1, 0])
def test_the_database_refuses_a_number_below_one(filled: Ledger, number: int) -> None:
    row, _ = forged(number)
    with pytest.raises(sa.exc.IntegrityError):
        change(filled, sa.insert(entries).values(**row))
    with pytest.raises(sa.exc.IntegrityError):
        change(filled, sa.update(entries).where(entries.c.number == 7).values(number=number))


def test_rows_below_one_from_before_the_check_survive_the_migration_and_are_reported(url: str) -> None:
    engine = open_engine(url)
    upgrade(engine)
    ledger = Ledger(engine)
    ledger.append([new_record(1)])
    without_checks(ledger)
    row, _ = forged(-1)
    change(ledger, sa.insert(entries).values(**row))
    change(ledger, sa.text(f"UPDATE {VERSIONS} SET version_num = '0004'"))
    assert upgrade(engine) == ("0004", "0008")
    found = ledger.prove().broken
    engine.dispose()
    assert found
    assert found.number == -1


def test_personal_data_without_an_entry_is_reported(filled: Ledger) -> None:
    without_checks(filled)
    _, personal = forged(99)
    if filled._engine.dialect.name == "sqlite":
        with closing(sqlite3.connect(str(filled._engine.url.database))) as connection:  # which checks no foreign keys
            names = ", ".join(personal)
            connection.execute(
                f"INSERT INTO ledger_particulars ({names}) VALUES ({', '.join('?' * len(personal))})",
                tuple(personal.values()),
            )
            connection.commit()
    else:
        change(filled, sa.insert(personal_data).values(**personal))
    found = filled.prove().broken
    assert found
    assert found.number == 99
    assert "no such entry" in found.reason


def test_an_entry_made_anew_in_the_middle_breaks_the_next_one(filled: Ledger) -> None:
    """Its own hash is right; that of the next one covers the hash that was there before."""
    with filled._engine.connect() as connection:
        before = connection.scalar(sa.select(entries.c.hash).where(entries.c.number == 4))
        assert before
    row, personal = forged(5, before)
    change(filled, sa.update(entries).where(entries.c.number == 5).values(**row))
    change(filled, sa.update(personal_data).where(personal_data.c.number == 5).values(**personal))
    found = filled.prove().broken
    assert found
    assert (found.number, found.id) == (6, "rec_0006")


def test_two_entries_with_the_same_facts_have_other_hashes_after_other_entries() -> None:
    entry = Entry(number=2, kind=Kind.ERASED, id="rec_1", at="2030-01-01T00:00:00.000Z")
    assert entry.hash(FIRST) != entry.hash("1" * 64)


# --- several writers -------------------------------------------------------------------------------------------------


def test_writers_in_several_processes_make_one_chain(url: str, tmp_path: Path) -> None:
    """They also migrate the empty database, all at once."""
    start = tmp_path / "start"
    start.mkdir()
    complaints = tmp_path / "complaints"
    with complaints.open("wb") as stderr:
        writers = [
            forks().start(
                "tests.ledger.records", [url, f"w{i}", "40", str(start)], env=os.environ, stderr=stderr, strict=True
            )
            for i in range(4)
        ]
    # All of them are there before the first one writes.
    until(lambda: len([*start.iterdir()]) == 4 or any(writer.poll() for writer in writers))
    (start / "go").touch()
    assert ([writer.wait(120) for writer in writers], complaints.read_text()) == ([0] * 4, "")
    engine = open_engine(url)
    proof = Ledger(engine).prove()
    assert (proof.entries, proof.broken) == (160, None)
    with engine.connect() as connection:
        ids = list(connection.scalars(sa.select(entries.c.id).order_by(entries.c.number)))
    assert {f"w{i}_{number:04}" for i in range(4) for number in range(40)} == set(ids)
    # They did not take turns by accident of starting one after the other.
    assert ids != sorted(ids)
    engine.dispose()


# --- migrations ------------------------------------------------------------------------------------------------------


def test_the_migrations_make_the_tables_of_the_code(url: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    engine = open_engine(url)
    assert upgrade(engine) == (None, "0008")
    assert upgrade(engine) == ("0008", "0008")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSIONS, "compare_type": True})
        found = compare_metadata(context, metadata)
    if engine.dialect.name == "sqlite":
        # Of a reference that stands with its column, as SQLite adds it, SQLAlchemy does not read what a deletion does.
        found = [one for one in found if not ("_fk" in one[0] and list(one[1].column_keys) == ["about"])]
    assert found == []
    engine.dispose()
