"""API keys: who may ask what. Blocks; not for an event loop. Errors of the database are SQLAlchemy's `DBAPIError`.

A key is shown once. Kept is the SHA-256 of its secret: 256 random bits cannot be guessed, so nothing slower is needed,
and whoever reads the database cannot use what is there.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from app.errors import UnknownKey
from app.store.engine import writing
from app.store.moments import timestamp
from app.store.tables import keys

PREFIX = "rk"
"""Begins every key, so that one that was published by mistake can be found."""

ID_BYTES = 6

SECRET_BYTES = 32


class Scope(StrEnum):
    """What a key may be used for."""

    RECOURSE = "recourse"
    MODELS = "models"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key, as far as it is kept."""

    id: str
    name: str
    """What the operator calls it."""
    scopes: frozenset[Scope]
    digest: str
    """SHA-256 of the secret."""
    created_at: str
    revoked_at: str | None
    unknown: frozenset[str] = frozenset()
    """Scopes that only a newer release knows; here they open nothing."""

    def opens_with(self, secret: str) -> bool:
        """Whether this is its secret, in a time that does not tell how much of it is right."""
        return hmac.compare_digest(self.digest, _digest(secret))


NOBODY = Key(id="", name="", scopes=frozenset(), digest="0" * 64, created_at="", revoked_at=None)
"""Compared with where no key has the id, so that this takes as long."""


class Keys:
    """The keys in one database; safe to use from several threads, processes and machines."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def create(self, name: str, scopes: Iterable[Scope], now: datetime) -> str:
        """Make a key; what is returned cannot be had again."""
        key_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
        row = {
            "id": key_id,
            "name": name,
            "scopes": " ".join(sorted(set(scopes))),
            "digest": _digest(secret),
            "created_at": timestamp(now),
        }
        with writing(self._engine) as connection:
            connection.execute(sa.insert(keys), row)
        return f"{PREFIX}_{key_id}_{secret}"

    def list(self) -> list[Key]:
        """All keys, oldest first, those that were revoked too."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(keys).order_by(keys.c.created_at, keys.c.id)).mappings()
            return [Key(**{**row, **_scopes(row["scopes"])}) for row in rows]

    def revoke(self, key_id: str, now: datetime) -> None:
        """Make a key useless, for good; once more does no harm. Raises `UnknownKey`."""
        with writing(self._engine) as connection:
            at = sa.func.coalesce(keys.c.revoked_at, timestamp(now))
            found = connection.execute(sa.update(keys).where(keys.c.id == key_id).values(revoked_at=at))
        if not found.rowcount:
            raise UnknownKey


def parts(offered: str) -> tuple[str, str]:
    """Id and secret of a key; both empty where it is none."""
    prefix, _, rest = offered.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if prefix == PREFIX else ("", "")


def _scopes(names: str) -> dict[str, frozenset[Any]]:
    found = frozenset(names.split())
    return {"scopes": frozenset(Scope(name) for name in found & {*Scope}), "unknown": found - {*Scope}}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
