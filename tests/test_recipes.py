"""docs/architecture.md: its rooms are those of `app/`, and its recipes name every file that a real addition touches.

A recipe lies when a file is missing from its list, so these tests look for what a listed example is called everywhere
else in `app/`: as a string, an import or an attribute in Python, in quotes in JavaScript. The files that documents and
the glossary name exist.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from app.questions.use_cases import USE_CASES
from app.recourse.methods import METHODS
from app.registry.adapters import ADAPTERS

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FORMATS = type(next(iter(ADAPTERS)))

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

MOST_FILES = 5


@dataclass(frozen=True)
class Recipe:
    """One list of files: `templates` hold the name of what is added in braces; `example` was added like this."""

    example: str
    templates: tuple[str, ...]

    def files(self, name: str = "") -> list[str]:
        return [re.sub(r"\{\w+\}", name or self.example, template) for template in self.templates]


def recipe(title: str) -> Recipe:
    section = ARCHITECTURE.partition(f"### {title}\n")[2].partition("\n#")[0]
    (example,) = re.findall(r"^As `(\w+)`:$", section, re.MULTILINE)
    return Recipe(example, tuple(re.findall(r"^\* `([^`]+)`: ", section, re.MULTILINE)))


RECIPES = {title: recipe(title) for title in re.findall(r"^### (Add an? .+)$", ARCHITECTURE, re.MULTILINE)}


# --- what a file names -----------------------------------------------------------------------------------------------


class Code(ast.NodeTransformer):
    """Leaves out example requests."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        return None if any(isinstance(x, ast.Name) and x.id.endswith("_EXAMPLES") for x in node.targets) else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign | None:
        return None if isinstance(node.target, ast.Name) and node.target.id.endswith("_EXAMPLES") else node


def words_of_python(source: str) -> Iterator[str]:
    """Strings that are no docstrings, imported names and attributes.

    Example requests (`..._EXAMPLES`) may name any method.
    """
    tree = Code().visit(ast.parse(source))
    sentences = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in sentences:
            yield node.value
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from node.module.split(".")


def words_of_javascript(source: str) -> Iterator[str]:
    yield from re.findall(r"[\"'`](\w+)[\"'`]", source)


@cache
def words() -> dict[str, frozenset[str]]:
    """What each file of `app/` names."""
    readers = {".py": words_of_python, ".js": words_of_javascript, ".html": words_of_javascript}
    return {
        path.relative_to(ROOT).as_posix(): frozenset(readers[path.suffix](path.read_text()))
        for path in sorted((ROOT / "app").rglob("*"))
        if path.suffix in readers
    }


def naming(*names: str) -> set[str]:
    """The files of `app/` that name one of these."""
    return {path for path, found in words().items() if not found.isdisjoint(names)}


def test_a_word_is_found_where_it_is_code() -> None:
    source = 'from app.a import one\n"""two"""\nx = f("three").four\n# five\nsix = 1\nA_EXAMPLES = "seven"\n'
    assert set(words_of_python(source)) == {"app", "a", "one", "three", "four"}


# --- the recipes -----------------------------------------------------------------------------------------------------


def test_there_is_a_recipe_for_what_is_added_most() -> None:
    assert set(RECIPES) == {"Add a method", "Add a model format", "Add an endpoint"}


@pytest.mark.parametrize("title", RECIPES)
def test_each_file_of_a_recipe_exists_and_names_its_example(title: str) -> None:
    found = RECIPES[title]
    assert 0 < len(found.templates) <= MOST_FILES
    for template, file in zip(found.templates, found.files(), strict=True):
        text = (ROOT / file).read_text()
        assert "{" in template or re.search(rf"(?<![a-z]){found.example}", text.lower()), file


@pytest.mark.parametrize("method", METHODS)
def test_no_other_file_names_a_method(method: str) -> None:
    assert naming(method) - set(RECIPES["Add a method"].files(method)) == set()
    assert (ROOT / f"app/recourse/methods/{method}.py").exists()


TOY = """
import json
from dataclasses import replace
from app.questions.use_cases import USE_CASES
from app.recourse.methods import METHODS
METHODS["toy"] = replace(METHODS["{example}"], name="toy", summary="A toy.")
from app.api.openapi import http_api, render
from app.questions.methods_route import DESCRIPTIONS
described = [method["name"] for method in DESCRIPTIONS]
print(json.dumps({{"described": described, "schemas": json.loads(render())["components"]["schemas"]}}))
"""


@pytest.mark.slow
def test_a_line_in_the_table_is_all_that_a_method_needs() -> None:
    """The list of methods and the request schema have it, without another line of code."""
    code = TOY.format(example=RECIPES["Add a method"].example)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert "toy" in found["described"]
    choice = {"$ref": "#/components/schemas/MethodChoice"}
    assert choice in found["schemas"]["RecourseRequest"]["properties"]["method"]["anyOf"]
    assert "toy" in found["schemas"]["MethodChoice"]["discriminator"]["mapping"]


def test_no_other_file_names_the_question_of_a_use_case() -> None:
    found = RECIPES["Add an endpoint"]
    question = USE_CASES[found.example].question.__name__
    assert naming(question) - set(found.files()) == set()


def test_every_format_has_an_adapter() -> None:
    assert set(ADAPTERS) == set(FORMATS)


def test_the_import_contracts_know_every_adapter() -> None:
    lists = [
        one[key]
        for one in CONTRACTS
        for key in ("modules", "protected_modules")
        if "Adapters" in one["name"] and key in one
    ]
    files = {f"app.registry.adapters.{path.stem}" for path in (ROOT / "app/registry/adapters").glob("*_model.py")}
    assert [set(modules) for modules in lists] == [files, files]


@pytest.mark.parametrize("form", ["torch", "xgboost", "lightgbm", "onnx"])  # the others are words of other things too
def test_no_other_file_names_a_format(form: str) -> None:
    found = naming(FORMATS(form).name, f"{form}_model") | {
        path for path in naming(form) if path.startswith("app/registry/")
    }
    # A recipe of future models is optional: a format without one has stand-ins. So is what a draft reads of a file.
    found = {path for path in found if not path.startswith(("app/futures/", "app/registry/drafting/"))}
    assert found - set(RECIPES["Add a model format"].files(form)) == set()


def test_the_router_of_an_endpoint_is_listed_where_its_recipe_says() -> None:
    routes = {path.stem for path in (ROOT / "app/api/routes").glob("*.py")} - {"__init__"}
    routes |= {path.parent.name for path in (ROOT / "app").glob("*/route.py")}
    assert "`app/api/openapi.py`" in ARCHITECTURE.partition("### Add an endpoint\n")[2].partition("\n#")[0]
    assert routes <= words()["app/api/openapi.py"]


ROOMS = CONTRACTS[0]["exhaustive_ignores"]
"""The folders of `app/` that have all of one feature."""


def test_each_file_of_a_room_stands_on_a_floor() -> None:
    floors = {name for line in CONTRACTS[0]["layers"] for name in re.split(r" [:|] ", line)}
    files = {f"{room}.{path.stem}" for room in ROOMS for path in (ROOT / "app" / room).glob("*.py")}
    assert {name for name in floors if "." in name} == {name for name in files if not name.endswith("__init__")}


@pytest.mark.parametrize(
    ("noun", "homes"),
    {
        "calibration": ("app/calibration/", "app/recourse/models/calibration.py"),
        "letter|notice": ("app/letters/", "app/cases/"),
        "review|case_?file": ("app/cases/",),
        "reasons": ("app/reasons/", "app/recourse/reasons/"),
        "idempoten": ("app/idempotency/",),
        "api_?key|daily_?budget|authentic": ("app/keys/",),
        "quarantine": ("app/pool/",),
        "audit": ("app/ledger/",),
    }.items(),
)
def test_a_feature_has_one_home(noun: str, homes: tuple[str, ...]) -> None:
    """Files and classes that are named after it; records of the table, requests and errors are elsewhere by kind."""
    elsewhere = []
    for path in sorted((ROOT / "app").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith((*homes, "app/errors.py")):
            continue
        classes = re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
        elsewhere += [f"{name}: {word}" for word in (path.stem, *classes) if re.search(noun, word, re.IGNORECASE)]
    assert elsewhere == []


# --- rooms and paths -------------------------------------------------------------------------------------------------


def rooms() -> list[str]:
    table = ARCHITECTURE.partition("## Rooms")[2].partition("\n**Floors")[0]
    rows = [entry.partition(": ")[0] for entry in table.split("\n* ")[1:]]
    return [path for row in rows for path in re.findall(r"`([^`]+)`", row)]


def test_every_room_has_one_line() -> None:
    directories = {path.parent for path in (ROOT / "app").rglob("*.py") if path.parent != ROOT / "app"}
    directories.add(ROOT / "app/api/static")
    versions = ROOT / "app/store/migrations/versions"
    files = {path for path in (ROOT / "app").glob("*.py") if path.name != "__init__.py"}
    expected = {f"{path.relative_to(ROOT)}/" for path in directories - {versions}}
    expected |= {str(path.relative_to(ROOT)) for path in files}
    listed = rooms()
    assert sorted(room for room in listed if room.startswith("app/")) == sorted(expected)
    assert all((ROOT / room).exists() for room in listed)


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path.name != "changelog.md"], ids=lambda p: p.name)
def test_files_that_documents_name_exist(document: Path) -> None:
    named = re.findall(r"`((?:app|tests|docs|examples|benchmarks)/[\w./-]+)`", document.read_text())
    assert [file for file in named if not (ROOT / file).exists()] == []


def test_the_glossary_names_files_that_exist() -> None:
    entries = (ROOT / "docs/glossary.md").read_text().split("\n* **")[1:]
    words = [entry.partition("**")[0].lower() for entry in entries]
    assert words == sorted(set(words))
    files = [entry.split()[-1].strip("(`)") for entry in entries if entry.rstrip().endswith("`)")]
    assert len(files) > 0.9 * len(entries)
    assert [file for file in files if not (ROOT / "app" / file).exists()] == []
