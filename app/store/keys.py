"""API keys and their scopes. Blocks; not for an event loop. Errors of the database are SQLAlchemy's `DBAPIError`.

A key is shown once; only the SHA-256 of its secret is stored. A secret of 256 random bits needs no slower hash, and a
reader of the database cannot use the digests.
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
from app.store.tables import keys
from app.store.timestamps import timestamp

PREFIX = "rk"
"""Begins every key, so that one published by mistake can be found."""

ID_BYTES = 6

SECRET_BYTES = 32


class Scope(StrEnum):
    """What a key may be used for."""

    RECOURSE = "recourse"
    MODELS = "models"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as stored."""

    id: str
    name: str
    """What the operator calls it."""
    scopes: frozenset[Scope]
    digest: str
    """SHA-256 of the secret."""
    created_at: str
    revoked_at: str | None
    unknown: frozenset[str] = frozenset()
    """Scopes of a newer release; here they permit nothing."""

    def opens_with(self, secret: str) -> bool:
        """Whether this is its secret, in constant time."""
        return hmac.compare_digest(self.digest, _digest(secret))


NOBODY = Key(id="", name="", scopes=frozenset(), digest="0" * 64, created_at="", revoked_at=None)
"""Compared with an unknown id's secret, so that this takes as long."""


class Keys:
    """The keys in one database; safe to use from several threads, processes and machines."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def create(self, name: str, scopes: Iterable[Scope], now: datetime) -> str:
        """Create a key and return it; it cannot be shown again."""
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
        """All keys, oldest first, including revoked ones."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(keys).order_by(keys.c.created_at, keys.c.id)).mappings()
            return [Key(**{**row, **_scopes(row["scopes"])}) for row in rows]

    def revoke(self, key_id: str, now: datetime) -> None:
        """Revoke a key permanently. Idempotent. Raises `UnknownKey`."""
        with writing(self._engine) as connection:
            at = sa.func.coalesce(keys.c.revoked_at, timestamp(now))
            found = connection.execute(sa.update(keys).where(keys.c.id == key_id).values(revoked_at=at))
        if not found.rowcount:
            raise UnknownKey


def parts(offered: str) -> tuple[str, str]:
    """Id and secret of a key; both empty if it is malformed."""
    prefix, _, rest = offered.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if prefix == PREFIX else ("", "")


def _scopes(names: str) -> dict[str, frozenset[Any]]:
    found = frozenset(names.split())
    return {"scopes": frozenset(Scope(name) for name in found & {*Scope}), "unknown": found - {*Scope}}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
