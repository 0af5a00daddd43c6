"""No underscore name of another package is imported or reached: the next release of it may not have the name."""

import ast
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

STILL = {
    # Estimators have no other class or attribute that tells what they are; `constraints.txt` pins the release.
    "app/registry/adapters/estimator_parts.py": {
        "_Booster", "_base", "_hist_gradient_boosting", "_tree", "_gb", "_strategy",
    },
}  # fmt: skip
"""Names that are used all the same. One that no longer is fails the test too."""

PUBLIC = {"os._exit", "_thread"}
"""Names of the standard library that are documented."""


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def defined() -> set[str]:
    """Names of functions, attributes and variables of our own files: reaching these is no other package's business."""
    names = set()
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                names.add(node.attr)
    return names


def reached(path: Path, ours: Set[str]) -> Iterator[str]:
    """Underscore names of other packages in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".") if alias.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in ("app", "__future__"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute) and ast.unparse(node) not in PUBLIC and node.attr not in ours:
            names = [node.attr]
        yield from filter(private, names)


def test_no_private_name_of_another_package_is_used() -> None:
    ours = defined()
    found = {str(path.relative_to(ROOT)): set(reached(path, ours)) for path in (ROOT / "app").rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == STILL


@pytest.mark.parametrize(
    "line",
    ["from dbos._utils import x", "from starlette import _utils", "import uvicorn._types", "app.router._match()"],
)
def test_each_way_to_reach_one_is_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "module.py").write_text(f"{line}\n")
    assert list(reached(tmp_path / "module.py", set()))
