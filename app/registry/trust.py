"""The operator's trust: artifacts that can run code, and hosts of remote models."""

from dataclasses import dataclass

from app.remote_hosts import RemoteHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Trusts nothing by default."""

    pickle: bool = False
    """Load artifacts that can run code, provided that their digest is the manifest's."""
    hosts: tuple[RemoteHost, ...] = ()
    """Hosts allowed for remote models."""
