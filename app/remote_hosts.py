"""Hosts to which the service may connect: named by the operator, at public addresses unless a range is given.

An entry is ``[http://]host[:port][=range[+range...]]``:

* ``models.example.com`` allows https on port 443, at public addresses only,
* ``*.models.example.com:8443`` allows every name below that domain, on this port,
* ``http://mlserver.internal:8080=10.3.0.0/16`` allows plain http too, and addresses of this range and no others.

The author of a manifest chooses the host, and the owner of a DNS name chooses its addresses; without these two checks,
either could direct the service at internal systems that only it can reach (SSRF).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_ENTRY = re.compile(
    r"(?P<scheme>https?)?(?(scheme)://)(?P<host>(\*\.)?[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?(=(?P<ranges>.+))?"
)

_UNICAST = IPv6Network("2000::/3")
"""The public IPv6 addresses in use; Python also counts obsolete forms such as ::127.0.0.1 as global."""

_EMBEDDING = IPv6Network("64:ff9b::/96")
"""Addresses that a gateway (NAT64) translates into the IPv4 address of their last four bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHost:
    """One entry of the operator's list of hosts to which the service may connect."""

    host: str
    """A name or an address, in lower case; ``*.`` before a domain stands for every name below it."""
    port: int
    plain: bool = False
    """Whether plain http is allowed."""
    ranges: tuple[IPv4Network | IPv6Network, ...] = ()
    """The only addresses allowed; every public address if empty."""

    @classmethod
    def parse(cls, text: str) -> "RemoteHost":
        """The entry that `text` describes: ``[http://]host[:port][=range[+range...]]``. Raises `ValueError`."""
        found = _ENTRY.fullmatch(text)
        if found is None:
            raise ValueError(f'"{text}" is not of the form [http://]host[:port][=range]')
        plain = found["scheme"] == "http"
        port = int(found["port"] or (80 if plain else 443))
        if not 1 <= port <= 65535:
            raise ValueError(f'"{text}" has a port beyond 65535')
        ranges = tuple(ip_network(one) for one in found["ranges"].split("+")) if found["ranges"] else ()
        return cls(host=found["host"].strip("[]").lower(), port=port, plain=plain, ranges=ranges)

    def covers(self, scheme: str, host: str, port: int) -> bool:
        """Whether this entry allows a URL with this scheme, host (in lower case) and port."""
        if port != self.port or not (scheme == "https" or (scheme == "http" and self.plain)):
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host

    def permits(self, address: str) -> bool:
        """Whether this entry allows a connection to `address`, an IP address to which the entry's host was resolved."""
        try:
            own = embedded(ip_address(address))
        except ValueError:  # with a zone, such as fe80::1%eth0, so link-local
            return False
        if self.ranges:
            return any(own in one for one in self.ranges)
        return own.is_global and not own.is_multicast and (own.version == 4 or own in _UNICAST)


def embedded(address: Address) -> Address:
    """The IPv4 address inside an IPv6 address such as ::ffff:127.0.0.1; any other address unchanged."""
    if isinstance(address, IPv6Address):
        if address in _EMBEDDING:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


def covering(hosts: Iterable[RemoteHost], scheme: str, host: str, port: int) -> RemoteHost | None:
    """The first entry of `hosts` that allows a URL with this scheme, host and port; None if no entry allows it."""
    return next((one for one in hosts if one.covers(scheme, host, port)), None)
