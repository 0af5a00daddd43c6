"""A sound model, an empty store, and what it takes to be refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import ModelRefused
from app.registry.registry import Registry
from tests.registry.loan import ModelDirectory, make_linear


@pytest.fixture
def model(tmp_path: Path) -> ModelDirectory:
    """A sound linear model, not yet written."""
    return make_linear(tmp_path / "source")


@pytest.fixture
def store(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "store")


@pytest.fixture
def refusal(store: Registry) -> Callable[[Path], dict[str, str]]:
    """Registers what must be refused, sees that nothing is left, and gives the faults by pointer."""

    def register(source: Path) -> dict[str, str]:
        with pytest.raises(ModelRefused) as caught:
            store.register(source)
        assert list(store.root.rglob("*")) == []
        faults: dict[str, str] = {}
        for fault in caught.value.faults:
            faults[fault.pointer] = "; ".join(filter(None, (faults.get(fault.pointer), fault.detail)))
        return faults

    return register
