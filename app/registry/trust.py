"""The operator's trust: artifacts that can run code, and hosts of remote models."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.remote_hosts import RemoteHost

if TYPE_CHECKING:
    from app.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What the operator allows models to do: run code from pickles, and answer from remote hosts. Default: nothing."""

    pickle: bool = False
    """Load artifacts that can run code, provided that their digest is the manifest's."""
    hosts: tuple[RemoteHost, ...] = ()
    """Hosts allowed for remote models."""

    @classmethod
    def of(cls, settings: "Settings") -> "Trust":
        """The `Trust` that `settings` describe."""
        return cls(pickle=settings.trust_pickle, hosts=settings.remote_hosts)
