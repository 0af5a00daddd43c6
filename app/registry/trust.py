"""What the operator vouches for: how far models are trusted, and where those that are not files may live."""

from dataclasses import dataclass

from app.remote_hosts import RemoteHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Nothing, unless it is said."""

    pickle: bool = False
    """Load artifacts that can run code, provided that their digest is the manifest's."""
    hosts: tuple[RemoteHost, ...] = ()
    """Hosts that remote models may be asked at."""
