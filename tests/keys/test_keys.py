"""API keys as they are kept."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from app.errors import UnknownKey
from app.keys.keys import NOBODY, Keys, parts
from app.keys.scopes import Scope
from app.store.engine import open_engine, writing
from app.store.migrate import upgrade
from app.store.tables import keys

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_key_opens_until_it_is_revoked_and_its_secret_is_not_kept(url: str) -> None:
    engine = open_engine(url)
    upgrade(engine)
    store = Keys(engine)
    offered = store.create("backend", [Scope.MODELS, Scope.RECOURSE], NOW)
    key_id, secret = parts(offered)
    (key,) = store.list()
    assert (key.id, key.name, key.scopes) == (key_id, "backend", {Scope.RECOURSE, Scope.MODELS})
    assert (key.created_at, key.revoked_at) == ("2026-03-01T00:00:00.000Z", None)
    assert key.opens_with(secret, NOW)
    assert not key.opens_with(secret[:-1], NOW)
    assert len(secret) >= 43
    with engine.connect() as connection:
        assert secret not in str(connection.execute(sa.select(keys)).all())
    store.revoke(key_id, NOW)
    store.revoke(key_id, NOW.replace(year=2027))
    assert store.list()[0].revoked_at == "2026-03-01T00:00:00.000Z"
    with pytest.raises(UnknownKey):
        store.revoke("nobody", NOW)
    engine.dispose()


def test_a_renewed_key_is_the_same_with_another_secret(url: str) -> None:
    engine = open_engine(url)
    upgrade(engine)
    store = Keys(engine)
    before = store.create("branch", [Scope.RECOURSE], NOW, models=["loan"], model_rows=5)
    key_id, secret = parts(before)
    (old,) = store.list()
    renewed_id, renewed = parts(store.renew(key_id, NOW))
    (new,) = store.list()
    assert renewed_id == key_id
    assert new.opens_with(renewed, NOW)
    assert not new.opens_with(secret, NOW)
    assert replace(new, digest=old.digest) == old
    store.revoke(key_id, NOW)
    for wrong in (key_id, "nobody"):
        with pytest.raises(UnknownKey):
            store.renew(wrong, NOW)
    engine.dispose()


def test_only_keys_that_have_changed_are_made_anew(url: str) -> None:
    """Servers read them every second, and thousands of them took half of a processor."""
    engine = open_engine(url)
    upgrade(engine)
    store = Keys(engine)
    revoked, _ = (parts(store.create(name, [Scope.RECOURSE], NOW))[0] for name in ("one", "two"))
    before = {key.id: key for key in store.list()}
    store.revoke(revoked, NOW)
    after = {key.id: key for key in store.list()}
    assert {key_id for key_id, key in after.items() if key is not before[key_id]} == {revoked}
    assert after[revoked].revoked_at is not None
    engine.dispose()


def test_the_secret_before_opens_for_the_overlap(url: str) -> None:
    engine = open_engine(url)
    upgrade(engine)
    store = Keys(engine)
    key_id, first = parts(store.create("branch", [Scope.RECOURSE], NOW))
    _, second = parts(store.renew(key_id, NOW, timedelta(hours=24)))
    (key,) = store.list()
    end = NOW + timedelta(hours=24)
    assert key.old_until == "2026-03-02T00:00:00.000Z"
    assert [key.opens_with(first, at) for at in (NOW, end - timedelta(seconds=1), end)] == [True, True, False]
    assert key.opens_with(second, end)
    assert not key.opens_with("", NOW)
    # Of a leaked secret nothing shall stay.
    _, third = parts(store.renew(key_id, NOW))
    (key,) = store.list()
    assert [key.opens_with(secret, NOW) for secret in (first, second, third)] == [False, False, True]
    assert (key.old_digest, key.old_until) == (None, None)
    engine.dispose()


def test_a_scope_that_only_a_newer_release_knows_opens_nothing(url: str) -> None:
    """A key with it, like all the others, still opens what this release knows."""
    engine = open_engine(url)
    upgrade(engine)
    store = Keys(engine)
    store.create("old", [Scope.AUDIT], NOW)
    store.create("new", [Scope.AUDIT], NOW.replace(year=2027))
    with writing(engine) as connection:
        connection.execute(sa.update(keys).where(keys.c.name == "new").values(scopes="appeals models"))
    old, new = store.list()
    engine.dispose()
    assert (old.scopes, old.unknown) == ({Scope.AUDIT}, set())
    assert (new.scopes, new.unknown) == ({Scope.MODELS}, {"appeals"})


@pytest.mark.parametrize("offered", ["", "rk", "rk_", "rk_abc", "sk_abc_def", "é_é_é", "rk__"])
def test_what_is_no_key_opens_nothing(offered: str) -> None:
    key_id, secret = parts(offered)
    assert (key_id, secret) == ("", "") or offered.startswith("rk_")
    assert not NOBODY.opens_with(secret, NOW)
