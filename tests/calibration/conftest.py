"""Servers of a test's own."""

from tests.servers import address, cluster, odd_server, server, shared_servers, start

__all__ = ["address", "cluster", "odd_server", "server", "shared_servers", "start"]
