"""Databases of a test's own."""

from tests.databases import ledger, url

__all__ = ["ledger", "url"]
