"""Two versions of the loan model that differ in their threshold."""

from pathlib import Path

import pytest

from app.registry.registry import Registry
from tests.registry.loan import make_linear
from tests.servers import start  # noqa: F401 - a fixture

TIGHTER = 0.6
"""Threshold of `loan@2`; `loan@1` has 0.5."""


@pytest.fixture(scope="session")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `loan@1`, the stricter `loan@2`, and `loan@3` with another schema."""
    root = tmp_path_factory.mktemp("compared")
    registry = Registry(root / "store")
    registry.register(make_linear(root / "1").write())
    registry.register(make_linear(root / "2").write(version="2", threshold=TIGHTER), active=False)
    other = make_linear(root / "3")
    other.manifest["features"][3]["categories"] = ["none", "some", "much", "more"]
    registry.register(other.write(version="3"), active=False)
    return root / "store"
