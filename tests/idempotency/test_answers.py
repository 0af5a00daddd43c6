"""Answers that are kept for their idempotency key."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from app.errors import IdempotencyInProgress, IdempotencyKeyReused
from app.idempotency.answers import KEPT, LEASE, Attempt, IdempotentAnswer, IdempotentAnswers
from app.ledger.ledger import Ledger
from tests.ledger.records import new_record

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LATER = NOW + LEASE + timedelta(seconds=1)
ANSWER = IdempotentAnswer(status=200, headers={"content-type": "application/json"}, body=b'{"id": "rec_1"}')


@pytest.fixture
def answers(ledger: Ledger) -> IdempotentAnswers:
    return IdempotentAnswers(ledger._engine)


def claim(answers: IdempotentAnswers, *, digest: str = "d", ids: str = "1", now: datetime = NOW) -> Attempt:
    attempt = answers.claim("key", digest, ids, now)
    assert isinstance(attempt, Attempt)
    return attempt


def test_an_answer_is_had_again_by_the_same_request_only_and_for_a_day(answers: IdempotentAnswers) -> None:
    assert answers.keep(claim(answers), ANSWER, "rec_1", NOW)
    assert answers.claim("key", "d", "2", LATER) == ANSWER
    with pytest.raises(IdempotencyKeyReused):
        answers.claim("key", "other", "2", LATER)
    assert claim(answers, digest="other", ids="3", now=NOW + KEPT).ids == "3"


def test_who_comes_meanwhile_has_to_wait(answers: IdempotentAnswers) -> None:
    attempt = claim(answers)
    with pytest.raises(IdempotencyInProgress):
        answers.claim("key", "d", "2", NOW)
    with pytest.raises(IdempotencyKeyReused):
        answers.claim("key", "other", "2", NOW)
    answers.renew(attempt, LATER - timedelta(seconds=2))
    with pytest.raises(IdempotencyInProgress):
        answers.claim("key", "d", "2", LATER)


def test_a_lapsed_lease_is_taken_over_with_the_ids_of_who_crashed(answers: IdempotentAnswers) -> None:
    crashed = claim(answers, ids="1")
    heir = claim(answers, ids="2", now=LATER)
    assert (heir.ids, heir.attempt != crashed.attempt) == ("1", True)
    assert not answers.keep(crashed, ANSWER, None, LATER)
    answers.release(crashed, LATER)
    assert answers.keep(heir, ANSWER, None, LATER)


def test_a_lease_of_a_clock_that_was_ahead_holds_no_key_after_a_crash(answers: IdempotentAnswers) -> None:
    crashed = claim(answers, now=NOW + timedelta(days=365))
    taken = claim(answers, ids="2", now=NOW)
    assert taken.ids == crashed.ids
    assert not answers.keep(crashed, ANSWER, "rec_1", NOW)
    assert answers.keep(taken, ANSWER, "rec_1", NOW)


def test_a_lease_of_a_clock_that_is_a_little_ahead_holds_its_key(answers: IdempotentAnswers) -> None:
    claim(answers, now=NOW + timedelta(minutes=4))
    with pytest.raises(IdempotencyInProgress):
        answers.claim("key", "d", "2", NOW)


def test_another_request_with_a_lapsed_key_is_a_new_one(answers: IdempotentAnswers) -> None:
    claim(answers, ids="1")
    assert claim(answers, digest="other", ids="2", now=LATER).ids == "2"


def test_the_same_request_sent_again_after_a_failure_has_the_same_ids(answers: IdempotentAnswers) -> None:
    """What the first one had begun may come to pass after it was told to have failed."""
    failed = claim(answers, ids="1")
    answers.release(failed, NOW)
    answers.renew(failed, NOW)  # comes late, and must not lock the key again
    heir = claim(answers, ids="2")
    assert heir.ids == "1"
    assert not answers.keep(failed, ANSWER, None, NOW)
    assert answers.keep(heir, ANSWER, None, NOW)


def test_a_renewal_that_comes_late_does_not_shorten_what_is_kept(answers: IdempotentAnswers) -> None:
    attempt = claim(answers)
    assert answers.keep(attempt, ANSWER, None, NOW)
    answers.renew(attempt, NOW)
    assert answers.claim("key", "d", "2", LATER) == ANSWER


def test_an_answer_is_not_kept_once_its_recourse_is_erased(answers: IdempotentAnswers, ledger: Ledger) -> None:
    ledger.append([new_record(1), new_record(2)])
    ledger.erase(["rec_0001"], "request", NOW)
    assert not answers.keep(claim(answers, ids="1"), ANSWER, "rec_0001", NOW)
    again = claim(answers, ids="2")
    # Another recourse, as nothing of the first one may be given again.
    assert again.ids == "2"
    assert answers.keep(again, ANSWER, "rec_0002", NOW)


def test_only_one_of_many_is_let_in(answers: IdempotentAnswers) -> None:
    def attempt(i: int) -> bool:
        try:
            return isinstance(answers.claim("key", "d", str(i), NOW), Attempt)
        except IdempotencyInProgress:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(24))) == 1


def test_what_nobody_can_have_again_is_swept(answers: IdempotentAnswers) -> None:
    answers.keep(claim(answers), ANSWER, None, NOW)
    assert answers.sweep(NOW + KEPT - timedelta(seconds=1)) == 0
    assert answers.sweep(NOW + KEPT + timedelta(seconds=1)) == 1
    claim(answers)
    # The ids of who crashed are kept for who comes back.
    assert answers.sweep(LATER) == 0
    assert answers.sweep(LATER + KEPT) == 1


def test_an_answer_that_was_kept_under_a_clock_that_was_ahead_goes_once_the_clock_is_right(
    answers: IdempotentAnswers,
) -> None:
    """It stayed for three years."""
    ahead = NOW + timedelta(days=3 * 365)
    assert answers.keep(claim(answers, now=ahead), ANSWER, "rec_1", ahead)
    assert answers.sweep(NOW, by_clock=ahead) == 0  # while the clock is as it was, the request may come again
    assert answers.sweep(NOW, by_clock=NOW) == 1
