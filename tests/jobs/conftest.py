"""Servers that compute jobs."""

from tests.servers import address, cluster, ledger, odd_server, server, shared_servers, start

__all__ = ["address", "cluster", "ledger", "odd_server", "server", "shared_servers", "start"]
