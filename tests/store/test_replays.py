"""Answers that are kept for their idempotency key."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from app.errors import IdempotencyInProgress, IdempotencyKeyReused
from app.store.ledger import Ledger
from app.store.replays import KEPT, LEASE, Attempt, Replay, Replays
from tests.store.gifts import gift

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LATER = NOW + LEASE + timedelta(seconds=1)
ANSWER = Replay(status=200, headers={"content-type": "application/json"}, body=b'{"id": "rec_1"}')


@pytest.fixture
def replays(ledger: Ledger) -> Replays:
    return Replays(ledger._engine)


def claim(replays: Replays, *, digest: str = "d", ids: str = "1", now: datetime = NOW) -> Attempt:
    attempt = replays.claim("key", digest, ids, now)
    assert isinstance(attempt, Attempt)
    return attempt


def test_an_answer_is_had_again_by_the_same_request_only_and_for_a_day(replays: Replays) -> None:
    assert replays.keep(claim(replays), ANSWER, "rec_1", NOW)
    assert replays.claim("key", "d", "2", LATER) == ANSWER
    with pytest.raises(IdempotencyKeyReused):
        replays.claim("key", "other", "2", LATER)
    assert claim(replays, digest="other", ids="3", now=NOW + KEPT).ids == "3"


def test_who_comes_meanwhile_has_to_wait(replays: Replays) -> None:
    attempt = claim(replays)
    with pytest.raises(IdempotencyInProgress):
        replays.claim("key", "d", "2", NOW)
    with pytest.raises(IdempotencyKeyReused):
        replays.claim("key", "other", "2", NOW)
    replays.renew(attempt, LATER - timedelta(seconds=2))
    with pytest.raises(IdempotencyInProgress):
        replays.claim("key", "d", "2", LATER)


def test_a_lapsed_lease_is_taken_over_with_the_ids_of_who_crashed(replays: Replays) -> None:
    crashed = claim(replays, ids="1")
    heir = claim(replays, ids="2", now=LATER)
    assert (heir.ids, heir.attempt != crashed.attempt) == ("1", True)
    assert not replays.keep(crashed, ANSWER, None, LATER)
    replays.release(crashed, LATER)
    assert replays.keep(heir, ANSWER, None, LATER)


def test_another_request_with_a_lapsed_key_is_a_new_one(replays: Replays) -> None:
    claim(replays, ids="1")
    assert claim(replays, digest="other", ids="2", now=LATER).ids == "2"


def test_a_key_that_was_let_go_is_free(replays: Replays) -> None:
    replays.release(claim(replays), NOW)
    assert claim(replays, digest="other", ids="2").ids == "2"


def test_the_same_request_sent_again_after_a_failure_has_the_same_ids(replays: Replays) -> None:
    """What the first one had begun may come to pass after it was told to have failed."""
    failed = claim(replays, ids="1")
    replays.release(failed, NOW)
    replays.renew(failed, NOW)  # comes late, and must not lock the key again
    heir = claim(replays, ids="2")
    assert heir.ids == "1"
    assert not replays.keep(failed, ANSWER, None, NOW)
    assert replays.keep(heir, ANSWER, None, NOW)


def test_a_renewal_that_comes_late_does_not_shorten_what_is_kept(replays: Replays) -> None:
    attempt = claim(replays)
    assert replays.keep(attempt, ANSWER, None, NOW)
    replays.renew(attempt, NOW)
    assert replays.claim("key", "d", "2", LATER) == ANSWER


def test_an_answer_is_not_kept_once_its_recourse_is_erased(replays: Replays, ledger: Ledger) -> None:
    ledger.append([gift(1), gift(2)])
    ledger.erase(["rec_0001"], "request", NOW)
    assert not replays.keep(claim(replays, ids="1"), ANSWER, "rec_0001", NOW)
    again = claim(replays, ids="2")
    # Another recourse, as nothing of the first one may be given again.
    assert again.ids == "2"
    assert replays.keep(again, ANSWER, "rec_0002", NOW)


def test_what_is_erased_is_had_no_more(replays: Replays) -> None:
    replays.keep(claim(replays), ANSWER, "rec_1", NOW)
    assert replays.erase(["rec_2"]) == 0
    assert replays.erase(["rec_1", "rec_2"]) == 1
    assert claim(replays, ids="2").ids == "2"


def test_only_one_of_many_is_let_in(replays: Replays) -> None:
    def attempt(i: int) -> bool:
        try:
            return isinstance(replays.claim("key", "d", str(i), NOW), Attempt)
        except IdempotencyInProgress:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(24))) == 1


def test_what_nobody_can_have_again_is_swept(replays: Replays) -> None:
    replays.keep(claim(replays), ANSWER, None, NOW)
    assert replays.sweep(NOW + KEPT - timedelta(seconds=1)) == 0
    assert replays.sweep(NOW + KEPT + timedelta(seconds=1)) == 1
    claim(replays)
    # The ids of who crashed are kept for who comes back.
    assert replays.sweep(LATER) == 0
    assert replays.sweep(LATER + KEPT) == 1
