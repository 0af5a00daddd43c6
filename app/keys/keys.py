"""API keys and their scopes. Blocks; not for an event loop. Errors of the database are SQLAlchemy's `DBAPIError`.

A key is shown once; only the SHA-256 of its secret is stored. A secret of 256 random bits needs no slower hash, and a
reader of the database cannot use the digests.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypedDict

import sqlalchemy as sa

from app.errors import InsufficientScope, UnknownKey
from app.keys.scopes import Scope
from app.store.engine import writing
from app.store.tables import keys
from app.store.timestamps import timestamp

PREFIX = "rk"
"""Begins every key, so that one published by mistake can be found."""

ID_BYTES = 6

SECRET_BYTES = 32

MOST_KNOWN = 20_000
"""Keys that are not made anew when they are read again."""

NO_DIGEST = "0" * 64
"""Of no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An API key as it is stored: with the digest of its secret instead of the secret."""

    id: str
    name: str
    """What the operator calls it."""
    scopes: frozenset[Scope]
    digest: str
    """SHA-256 of the secret."""
    created_at: str
    revoked_at: str | None
    models: frozenset[str] | None = None
    """Ids of the models that it may ask; None for all."""
    model_rows: int | None = None
    """Records that models may be asked about for it in a day; None for the default of the settings, 0 for no limit."""
    old_digest: str | None = None
    """SHA-256 of the secret before, which opens as well until `old_until`."""
    old_until: str | None = None
    unknown: frozenset[str] = frozenset()
    """Scopes of a newer release; here they permit nothing."""

    def opens_with(self, secret: str, now: datetime) -> bool:
        """Whether `secret` is the secret of the key, or the previous secret if that is still valid.

        Takes the same time for every secret.
        """
        digest = _digest(secret)
        is_old = hmac.compare_digest(self.old_digest or NO_DIGEST, digest)
        return hmac.compare_digest(self.digest, digest) or (is_old and timestamp(now) < (self.old_until or ""))

    def may_ask(self, model_id: str) -> bool:
        """Whether the key may ask the model with this id."""
        return self.models is None or model_id in self.models

    def may_see(self, owner: str | None, model_id: str | None) -> bool:
        """Whether this key may see what the key `owner` asked a model; `owner` is None for a request without a key."""
        mine = owner == self.id or Scope.EVERYONE in self.scopes
        return mine and (self.models is None or model_id in self.models)


NOBODY = Key(id="", name="", scopes=frozenset(), digest=NO_DIGEST, created_at="", revoked_at=None)
"""Compared with an unknown id's secret, so that this takes as long."""


class Seen(TypedDict):
    """Which recourse a list shows; None sets no limit."""

    key: str | None
    """Only what this key asked for."""
    models: frozenset[str] | None
    """Only of these models."""


asking: ContextVar[Key | None] = ContextVar("asking", default=None)
"""The key of the request in this context; None where no key is needed, and for what the service does by itself."""


def asking_id() -> str | None:
    """The id of the API key of the current request; None where no key is needed."""
    key = asking.get()
    return None if key is None else key.id


def may_see(owner: str | None, model_id: str | None) -> bool:
    """Whether the key of the current request may see what the key `owner` asked a model.

    True where no key is needed.
    """
    key = asking.get()
    return key is None or key.may_see(owner, model_id)


def seen_by(key: Key | None) -> Seen:
    """Which recourse lists show to a caller with this key; `key` is None for a caller without a key."""
    if key is None:
        return Seen(key=None, models=None)
    return Seen(key=None if Scope.EVERYONE in key.scopes else key.id, models=key.models)


def may_read_scores() -> bool:
    """Whether the key of the current request may read the model's scores of records that requests bring.

    True where no key is needed.
    """
    key = asking.get()
    return key is None or not key.scopes.isdisjoint({Scope.SCORES, Scope.MODELS})


def require_own_or(scope: Scope, owner: str | None) -> None:
    """Raise `InsufficientScope` unless the key of the current request has the id `owner`, or the scope `scope`.

    A request without a key passes.
    """
    key = asking.get()
    if key is not None and key.id != owner and scope not in key.scopes:
        raise InsufficientScope(f"What another key asked for needs a key with the scope {scope}.", scopes=[scope])


class Keys:
    """The API keys in one database; several threads, processes and machines may use the database at once."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def create(
        self,
        name: str,
        scopes: Iterable[Scope],
        now: datetime,
        *,
        models: Iterable[str] = (),
        model_rows: int | None = None,
    ) -> str:
        """Create a key and return its text, which cannot be shown again.

        Parameters
        ----------
        name : what the operator calls the key
        models : ids of the models that the key may ask; empty for all models
        model_rows : most records per day that models may be asked about; None for the default of the settings, 0 for no
            limit
        """
        key_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
        row = {
            "id": key_id,
            "name": name,
            "scopes": " ".join(sorted(set(scopes))),
            "digest": _digest(secret),
            "created_at": timestamp(now),
            "models": " ".join(sorted(set(models))) or None,
            "model_rows": model_rows,
        }
        with writing(self._engine) as connection:
            connection.execute(sa.insert(keys), row)
        return f"{PREFIX}_{key_id}_{secret}"

    def renew(self, key_id: str, now: datetime, overlap: timedelta = timedelta(0)) -> str:
        """Give a key another secret, and return the key's new text; its id and the recourse that it asked for stay.

        The previous secret remains valid for the time `overlap`; older secrets become invalid. Raises `UnknownKey`.
        """
        secret = secrets.token_urlsafe(SECRET_BYTES)
        valid = (keys.c.id == key_id) & keys.c.revoked_at.is_(None)
        old: dict[str, Any] = {"old_digest": None, "old_until": None}
        if overlap:
            old = {"old_digest": keys.c.digest, "old_until": timestamp(now + overlap)}
        with writing(self._engine) as connection:
            found = connection.execute(sa.update(keys).where(valid).values(digest=_digest(secret), **old))
        if not found.rowcount:
            raise UnknownKey
        return f"{PREFIX}_{key_id}_{secret}"

    def list(self) -> list[Key]:
        """All keys, oldest first, including revoked ones."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(keys).order_by(keys.c.created_at, keys.c.id))
            return [_key(tuple(row)) for row in rows]

    def revoke(self, key_id: str, now: datetime) -> None:
        """Revoke a key permanently. Idempotent. Raises `UnknownKey`."""
        with writing(self._engine) as connection:
            at = sa.func.coalesce(keys.c.revoked_at, timestamp(now))
            found = connection.execute(sa.update(keys).where(keys.c.id == key_id).values(revoked_at=at))
        if not found.rowcount:
            raise UnknownKey


def parts(offered: str) -> tuple[str, str]:
    """The id and the secret in the text of a key; both are empty if the text has another form."""
    prefix, _, rest = offered.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if prefix == PREFIX else ("", "")


@lru_cache(maxsize=MOST_KNOWN)
def _key(row: tuple[Any, ...]) -> Key:
    """The key of a row; servers read all rows every second, and few have changed."""
    found = dict(zip(keys.c.keys(), row, strict=True))
    return Key(**{**found, **_scopes(found["scopes"]), "models": _models(found["models"])})


def _scopes(names: str) -> dict[str, frozenset[Any]]:
    found = frozenset(names.split())
    return {"scopes": frozenset(Scope(name) for name in found & {*Scope}), "unknown": found - {*Scope}}


def _models(ids: str | None) -> frozenset[str] | None:
    return None if ids is None else frozenset(ids.split())


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
