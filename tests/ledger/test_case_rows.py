"""Letters and reviews in the ledger, on both databases: they go with their recourse, and a forged one is found."""

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from app.errors import Erased
from app.ledger.chain import Kind, PersonalData
from app.ledger.entries import personal_data as data_of
from app.ledger.ledger import Ledger, NewRecord
from app.store.engine import writing
from app.store.tables import entries, personal_data
from tests.ledger.records import new_record

NOW = datetime(2030, 2, 1, tzinfo=UTC)


def letter(number: int, about: str, **changes: Any) -> NewRecord:
    facts = {"id": f"let_{number:04}", "at": "2030-01-02T00:00:00.000Z", "status": "post", "about": about}
    data = PersonalData(reference=None, job=None, request=b'{"to":"Ms A"}', answer=b"Dear Ms A")
    return NewRecord(**{"kind": Kind.SENT, "personal_data": data, **facts, **changes})


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """Three recourses; two letters and a review about the second, a letter about the third."""
    ledger.append([new_record(number) for number in (1, 2, 3)])
    for number, about in ((1, "rec_0002"), (2, "rec_0003"), (3, "rec_0002")):
        ledger.add(letter(number, about))
    ledger.add(letter(9, "rec_0002", id="rev_0001", kind=Kind.REVIEWED, status="accepted"))
    return ledger


def change(ledger: Ledger, *statements: sa.Executable) -> None:
    with writing(ledger._engine) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_case_has_its_own_links_in_order(filled: Ledger) -> None:
    links = filled.links("rec_0002")
    assert [one.record.entry.id for one in links] == ["rec_0002", "let_0001", "let_0003", "rev_0001"]
    assert all(one.holds for one in links)
    assert [one.record.entry.hash(one.before) for one in links] == [one.hash for one in links]
    assert data_of(links[1].record).answer == b"Dear Ms A"
    assert [one.record.entry.id for one in filled.links("rec_0001")] == ["rec_0001"]
    assert filled.prove().broken is None


def test_letters_are_no_recourse(filled: Ledger) -> None:
    assert [one.entry.id for one in filled.newest(9)] == ["rec_0003", "rec_0002", "rec_0001"]
    assert [one.entry.id for one in filled.newest(9, reference=None, status="accepted")] == []


def test_letters_are_erased_with_their_recourse(filled: Ledger) -> None:
    assert filled.erase(["rec_0002"], "request", NOW) == 1
    assert filled.links("rec_0002") == []
    with filled._engine.connect() as connection:
        left = connection.scalars(sa.select(personal_data.c.number).order_by(personal_data.c.number)).all()
    assert left == [1, 3, 5]
    proof = filled.prove()
    assert (proof.broken, proof.erased, proof.entries) == (None, 1, 8)
    with pytest.raises(Erased):
        filled.add(letter(4, "rec_0002"))
    with pytest.raises(Erased):
        filled.add(letter(4, "rec_none"))
    assert filled.prove().entries == 8


def test_a_letter_that_was_recorded_is_not_recorded_again_once_erased(filled: Ledger) -> None:
    filled.erase(["rec_0002"], "request", NOW)
    with pytest.raises(Erased):
        filled.add(letter(1, "rec_0002"))


FIRST_LETTER, FIRST_REVIEW = 4, 7

FORGERIES: dict[str, tuple[Any, int, str]] = {
    "another text": (
        sa.update(personal_data).where(personal_data.c.number == FIRST_LETTER).values(answer=b"Dear Mr B"),
        FIRST_LETTER,
        "has other personal data than it was written with",
    ),
    "another time": (
        sa.update(entries).where(entries.c.number == FIRST_LETTER).values(at="2030-01-01T00:00:00.000Z"),
        FIRST_LETTER,
        "is not as it was written",
    ),
    "another channel": (
        sa.update(entries).where(entries.c.number == FIRST_LETTER).values(status="email"),
        FIRST_LETTER,
        "is not as it was written",
    ),
    "about another": (
        sa.update(entries).where(entries.c.number == FIRST_LETTER).values(about="rec_0001"),
        FIRST_LETTER,
        "is not as it was written|is not kept with what it is about",
    ),
    "kept with another": (
        sa.update(personal_data).where(personal_data.c.number == FIRST_LETTER).values(about=1),
        FIRST_LETTER,
        "is not kept with what it is about",
    ),
    "kept with none": (
        sa.update(personal_data).where(personal_data.c.number == FIRST_LETTER).values(about=None),
        FIRST_LETTER,
        "is not kept with what it is about",
    ),
    "another decision": (
        sa.update(entries).where(entries.c.number == FIRST_REVIEW).values(status="refused"),
        FIRST_REVIEW,
        "is not as it was written",
    ),
    "lost": (
        sa.delete(personal_data).where(personal_data.c.number == FIRST_LETTER),
        FIRST_LETTER,
        "has lost its personal data, and no entry says that it was erased",
    ),
    "made up": (
        sa.insert(entries).values(
            number=8, kind="reviewed", id="rev_0002", at="2030-01-03T00:00:00.000Z", status="accepted",
            about="rec_0001", hash="0" * 64,
        ),
        8,
        "is not as it was written",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_letter_or_review_is_found(filled: Ledger, name: str) -> None:
    statement, number, reason = FORGERIES[name]
    change(filled, statement)
    broken = filled.prove().broken
    assert broken is not None
    assert broken.number == number
    assert broken.reason in reason.split("|")
    if name in ("another text", "another time", "another channel", "another decision", "about another"):
        held = {one.record.entry.number: one.holds for one in filled.links("rec_0002")}
        assert held == {k: k != number for k in held}
        assert number in held


def test_a_letter_that_was_to_be_erased_and_is_there_is_found(filled: Ledger) -> None:
    row = sa.select(personal_data).where(personal_data.c.number == FIRST_LETTER)
    with filled._engine.connect() as connection:
        kept = dict(connection.execute(row).one()._mapping)
    filled.erase(["rec_0002"], "request", NOW)
    change(filled, sa.insert(personal_data).values(**kept | {"about": None}))
    broken = filled.prove().broken
    assert broken is not None
    assert broken.number == FIRST_LETTER
