"""Databases and servers of a test's own, and two versions of the loan model."""

from tests.databases import url
from tests.portfolio.conftest import loans
from tests.servers import server, shared_servers, start

__all__ = ["loans", "server", "shared_servers", "start", "url"]
