"""What a user of the library imports, and what that loads."""

import doctest
import subprocess
import sys
from importlib import import_module

import pytest

import app.recourse as facade


def test_the_example_runs() -> None:
    found = doctest.testmod(facade)
    assert found.failed == 0
    assert found.attempted > 10


@pytest.mark.parametrize("name", facade.__all__)
def test_every_name_is_what_its_module_has(name: str) -> None:
    found = getattr(facade, name)
    assert found is getattr(import_module(facade._MODULE_OF[name]), name)


def test_the_list_of_names_is_complete() -> None:
    assert set(facade.__all__) == set(facade._MODULE_OF)
    assert not hasattr(facade, "nonsense")


def ran(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_library_loads_neither_conic_modelling_nor_torch() -> None:
    ran(
        "import sys; from app.recourse import *\n"
        "assert callable(solve) and callable(frontier)\n"
        "assert not {'cvxpy', 'torch', 'sklearn', 'fastapi', 'pydantic'} & set(sys.modules)"
    )


def test_one_submodule_loads_no_others() -> None:
    ran("import sys, app.recourse.features; assert not {'scipy', 'app.recourse.solve'} & set(sys.modules)")


def test_a_verb_is_the_function_also_where_its_module_was_loaded_first() -> None:
    ran(
        "from app.recourse.frontier import Frontier\n"
        "from app.recourse.solve import MAX_CALLS\n"
        "from app.recourse import frontier, solve\n"
        "assert callable(solve) and callable(frontier)"
    )
