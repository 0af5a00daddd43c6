"""Databases and servers of a test's own."""

from tests.databases import ledger, url
from tests.servers import address, cluster, odd_server, server, shared_servers, start

__all__ = ["address", "cluster", "ledger", "odd_server", "server", "shared_servers", "start", "url"]
