"""What every test run needs before anything else is imported, and how much of the tests is run.

It has to happen here: `tests/conftest.py` imports the core, and a hook on imports only reaches what comes after it.
"""

import gc
import os
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Two workers with a thread for each core would get in each other's way. Children of the tests inherit it.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(name, "1")

TYPES = "TEST_TYPES"
"""Set to 1, shapes and types in annotations of the core are checked at every call; a solve takes five times longer."""

if os.environ.get(TYPES) == "1":
    from jaxtyping import install_import_hook

    # As for a static checker, an int will do where a float is asked for.
    install_import_hook("app.recourse", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")
    # The checks of a call are calls themselves: a recursion of the core is several times as deep.
    sys.setrecursionlimit(4 * sys.getrecursionlimit())

# A failure must depend neither on the day nor on how busy the machine is.
settings.register_profile("all", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", settings.get_profile("all"), max_examples=20)
settings.register_profile("types", settings.get_profile("all"), max_examples=5)
settings.load_profile("dev")  # unless --hypothesis-profile names another one


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--seeds`` and ``--variants``."""
    parser.addoption(
        "--seeds", type=int, default=1, metavar="N",
        help="run the first N seeds of a test that has a parameter `seed`; 0: all of them (default: 1)",
    )  # fmt: skip
    parser.addoption(
        "--variants", type=int, default=0, metavar="N",
        help="run about N of the parameters of each test, spread over all of them; 0: all of them (default)",
    )  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage neither while all is imported and collected, half of which took that, nor in it later on."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the seeds after the first ones, and variants; a test that is named with its seed is run.

    Files with servers go first, then those of whole answers, which take longer than those of their parts: many short
    ones share out evenly at the end.
    """
    count: int = config.getoption("seeds")
    named = {arg.rpartition("::")[2] for arg in config.args if arg.endswith("]")}
    left_out = [item for item in items if count and item.name not in named and _seed(item) >= count]
    _leave_out(config, items, left_out)
    if variants := config.getoption("variants"):
        _leave_out(config, items, _further_variants(items, variants))
    core = config.rootpath / "tests" / "recourse"
    turns = {core: 1, core / "methods": 1}
    _mark_known_failures(config, items)
    items.sort(key=lambda item: turns.get(item.path.parent, 2) if item.path.is_relative_to(core) else 0)


def _mark_known_failures(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Report tests of `tests/known_failures.txt` as expected failures, with the reason that stands there."""
    lines = (config.rootpath / "tests" / "known_failures.txt").read_text(encoding="utf-8").splitlines()
    reasons = dict(line.split(" | ", 1) for line in lines if not line.startswith("#"))
    for item in items:
        if reason := reasons.get(item.nodeid.partition("[")[0]):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


def _further_variants(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """All but about `count` items of each test function, every second or third and so on."""
    of_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        of_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {one for found in of_function.values() for one in found[:: max(1, len(found) // count)]}
    return [item for item in items if item not in kept]


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        chosen = set(left_out)
        items[:] = [item for item in items if item not in chosen]


def _seed(item: pytest.Item) -> int:
    """The seed that a test is run with; 0 where it has none."""
    seed = item.callspec.params.get("seed") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else 0
    return seed if isinstance(seed, int) else 0
