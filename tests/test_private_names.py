"""Names that a package keeps for itself may change with any of its releases."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

KEEPERS = ("dbos", "uvicorn", "starlette", "fastapi")
"""Packages whose machinery the service stands on; ruff looks for private attributes of all (SLF001)."""


def private_imports(source: str) -> list[str]:
    """Modules and names with an underscore that are imported from the keepers."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        found += [".".join(one) for one in parts if one[0] in KEEPERS and any(part.startswith("_") for part in one)]
    return found


@pytest.mark.parametrize("source", ["import dbos._error", "from dbos._utils import A", "from uvicorn import _types"])
def test_private_imports_are_found(source: str) -> None:
    assert private_imports(source)


def test_nothing_private_is_imported() -> None:
    found = {str(path): private_imports(path.read_text()) for path in (ROOT / "app").rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}
