"""Databases of a test's own."""

from tests.databases import ledger, settings, url

__all__ = ["ledger", "settings", "url"]
