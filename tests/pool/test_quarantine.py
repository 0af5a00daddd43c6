"""A model that ends the children that load it harms its own callers only."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import LaneCrashed, ModelQuarantined, Overloaded
from app.metrics import Metrics
from app.pool import child as child_module
from app.pool import pool as pool_module
from app.pool import quarantine as quarantine_module
from app.pool.child import Need
from app.pool.quarantine import STRIKES, Quarantine
from tests.pool import chores
from tests.pool.test_pool import lane, until
from tests.processes import fork_servers

GOOD = Need("good@1", chores.load, ("good",))

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETRY_S", 0.01)


def test_two_children_are_enough_until_it_is_released() -> None:
    releases = {"bad@1": 0}
    quarantine = Quarantine(lambda name: releases.get(name, 0))
    assert not quarantine.doubts("bad@1")
    for _ in range(STRIKES):
        quarantine.require("bad@1")
        quarantine.strike("bad@1", "timeout")
        assert quarantine.doubts("bad@1")
    with pytest.raises(ModelQuarantined, match="bad@1"):
        quarantine.require("bad@1")
    quarantine.require("good@1")
    assert quarantine.names() == ["bad@1"]
    metrics = Metrics(quarantined=quarantine.names).render({}, {})
    assert b'recourse_model_quarantined{model="bad@1"} 1.0' in metrics
    releases["bad@1"] += 1
    quarantine.require("bad@1")
    assert (quarantine.names(), quarantine.doubts("bad@1")) == ([], False)


def test_it_ends_by_itself_and_says_when(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(quarantine_module, "monotonic", lambda: now[0])
    quarantine = Quarantine()
    for pause_s in (60.0, 120.0, 240.0):
        # As many children as there are may be lost to it at once.
        for _ in range(5):
            quarantine.strike("busy@1", "timeout")
        now[0] += pause_s - 1.0
        with pytest.raises(ModelQuarantined, match=r"first request after \d\d:\d\d:\d\d UTC tries it again"):
            quarantine.require("busy@1")
        now[0] += 1.0
        quarantine.require("busy@1")
        assert quarantine.names() == ["busy@1"], "until it has been loaded"
    quarantine.acquit("busy@1")
    assert (quarantine.names(), quarantine.doubts("busy@1")) == ([], False)


@pytest.mark.parametrize(
    ("bad", "caught"),
    [
        (lambda path: Need("bad@1", chores.load, (path,)), Overloaded),
        (lambda path: Need("bad@1", chores.crash, ()), LaneCrashed),
        pytest.param(lambda path: Need("bad@1", chores.devour, (4000,)), LaneCrashed, marks=pytest.mark.release),
    ],
    ids=["hangs", "dies", "devours"],
)
async def test_a_model_that_ends_its_children_leaves_the_others_in_use(
    bad: Callable[[str], Need], caught: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "WALL_FACTOR", 2.0)
    (tmp_path / "hangs").touch()
    need = bad(str(tmp_path / "hangs"))
    quarantine = Quarantine()

    async with lane(needs=lambda: [need, GOOD], load_s=0.5, memory_mb=2000, quarantine=quarantine) as one:
        assert await one.run(chores.notes, timeout_s=30, need=GOOD) == ["good"]
        # One child is lost to it, as it is to have loaded all models; the next one does without.
        await until(lambda: quarantine.doubts("bad@1") and one.warm == 1)
        assert await one.run(chores.notes, timeout_s=30, need=GOOD) == ["good"]
        assert quarantine.names() == []
        with pytest.raises(caught):
            await one.run(chores.echo, 1, timeout_s=30, need=need)
        ended = one.state().ended
        with pytest.raises(ModelQuarantined, match="bad@1"):
            await one.run(chores.echo, 1, timeout_s=30, need=need)
        assert one.state().ended == ended, "no child is lost to it again"
        assert await one.run(chores.echo, 1, timeout_s=30, need=GOOD) == 1
        await until(lambda: one.warm == 1)


async def test_a_model_is_not_blamed_for_the_death_of_the_fork_server(own_fork_server: None, tmp_path: Path) -> None:
    (tmp_path / "hangs").touch()
    quarantine = Quarantine()

    async with lane(quarantine=quarantine) as one:
        assert await one.run(chores.echo, 1, timeout_s=30) == 1
        loading = asyncio.create_task(
            one.run(chores.echo, 1, timeout_s=30, need=Need("slow@1", chores.load, (str(tmp_path / "hangs"),)))
        )
        await until(lambda: not one.state().idle)
        os.kill(*fork_servers(os.getpid()), signal.SIGKILL)
        with pytest.raises(LaneCrashed):
            await loading
        assert not quarantine.doubts("slow@1")


async def test_what_a_computation_does_is_not_held_against_the_model() -> None:
    quarantine = Quarantine()

    async with lane(memory_mb=2000, quarantine=quarantine) as one:
        for _ in range(STRIKES + 1):
            with pytest.raises(LaneCrashed, match="RECOURSE_CHILD_MEMORY_MB"):
                await one.run(chores.devour, 4000, timeout_s=30, need=GOOD)
        assert await one.run(chores.echo, 1, timeout_s=30, need=GOOD) == 1
    assert not quarantine.doubts("good@1")
