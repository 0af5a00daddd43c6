"""Pools: warm children, killed at their limit, replaced when they die, never left behind."""

import asyncio
import errno
import multiprocessing.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.errors import Fault, InternalError, InvalidRecord, LaneCrashed, LaneTimeout, ModelUnusable, Overloaded
from app.metrics import LaneState
from app.pool import child as child_module
from app.pool import pool as pool_module
from app.pool.child import Child, Need
from app.pool.pool import GRACE_S, Pool
from app.pool.serve import Call, Written
from tests.event_loop import until
from tests.pool import chores, surprises
from tests.processes import gone


@asynccontextmanager
async def lane(size: int = 1, **options: Any) -> AsyncIterator[Pool]:
    running = Pool("test", size, **options)
    running.start()
    try:
        yield running
    finally:
        await running.close()


@contextmanager
def no_files() -> Iterator[None]:
    """Inside, this process can open no file and no socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@asynccontextmanager
async def begun() -> AsyncIterator[Child]:
    child = Child()
    await child.start(lambda _child: None)
    try:
        yield child
    finally:
        await child.kill()


async def test_calls_are_answered_by_the_same_child() -> None:
    async with lane() as one:
        assert await one.run(chores.echo, {"a": [1, 0.1, None, "é"]}, timeout_s=20) == {"a": [1, 0.1, None, "é"]}
        first = await one.run(chores.pid, timeout_s=20)
        assert first == await one.run(chores.pid, timeout_s=20) != os.getpid()


async def test_large_arguments_and_results_pass() -> None:
    async with lane() as one:
        text = "x" * 3_000_000
        assert await one.run(chores.echo, text, timeout_s=20) == text


async def test_a_child_meets_a_need_again_only_when_it_may_have_forgotten_it() -> None:
    a, b = Need("a", chores.load, ("a",)), Need("b", chores.load, ("b",))
    c = Need("c", chores.load, ("c", "a"))  # which makes the child give up a

    async with lane() as one:
        for need in (a, a, b, a, b, c, b, c, a):
            met = await one.run(chores.notes, timeout_s=20, need=need)
        assert met == ["a", "b", "c", "a"]


async def test_what_a_child_has_written_passes_byte_for_byte() -> None:
    async with lane() as one:
        texts = {"é": '{"a": "ü"}\n'.encode(), "empty": b"", "any": bytes(range(256)) * 1000}
        assert await one.run(chores.write, texts, timeout_s=20) == Written({"texts": 3}, texts)


async def test_children_compute_with_one_thread_each_and_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")

    async with lane(nice=5) as one:
        assert await one.run(chores.environment, "OMP_NUM_THREADS", timeout_s=20) == "1"
        assert await one.run(chores.niceness, timeout_s=20) == min(os.nice(0) + 5, 19)


async def test_memory_that_a_child_frees_stays_with_it() -> None:
    async with lane() as one:
        assert await one.run(chores.page_faults, timeout_s=20) < 100


async def test_the_function_learns_how_much_time_is_left_after_waiting(tmp_path: Path) -> None:
    async with lane() as one:
        holding = asyncio.create_task(one.run(chores.hold, str(tmp_path / "held"), timeout_s=20))
        await until((tmp_path / "held").exists)
        waiting = asyncio.create_task(one.run(chores.left, timeout_s=10))
        await until(lambda: one.state().waiting == 1)
        await asyncio.sleep(0.3)
        (tmp_path / "held").unlink()
        assert await waiting < 9.71
        assert await holding == "done"


async def test_a_loop_in_native_code_is_killed_at_its_limit_and_the_child_replaced(tmp_path: Path) -> None:
    async with lane() as one:
        first = await one.run(chores.pid, timeout_s=20)
        began = time.monotonic()
        with pytest.raises(LaneTimeout):
            await one.run(chores.loop_in_c, str(tmp_path / "looping"), timeout_s=0.5)
        assert time.monotonic() - began < 0.5 + GRACE_S + 15
        assert (tmp_path / "looping").read_text() == str(first)
        second = await one.run(chores.pid, timeout_s=20)
        assert second != first
        await until(lambda: gone(first))


@pytest.mark.parametrize("accident", [chores.die, chores.segfault])
async def test_a_child_that_dies_at_work_is_replaced(accident: Callable[..., None]) -> None:
    async with lane() as one:
        with pytest.raises(LaneCrashed):
            await one.run(accident, timeout_s=20)
        assert await one.run(chores.echo, "well", timeout_s=20) == "well"


@pytest.mark.parametrize("heard_of", [True, False])
async def test_a_child_that_dies_while_idle_costs_no_call(heard_of: bool) -> None:
    async with lane() as one:
        first = await one.run(chores.pid, timeout_s=20)
        os.kill(first, signal.SIGKILL)
        while not gone(first):  # while this waits, the loop does not hear of it
            time.sleep(0.001)
        if heard_of:
            await until(lambda: one.state().ended == {"crash": 1})
        assert await one.run(chores.pid, timeout_s=20) != first


async def test_a_child_that_dies_while_idle_is_replaced_before_anybody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETRY_S", 0.01)

    async with lane(2) as two:
        await until(lambda: two.warm == 2)
        with no_files():
            doomed = min(two.pids)
            os.kill(doomed, signal.SIGKILL)
            await until(lambda: two.warm == 1)
            assert two.state() == LaneState(busy=0, idle=1, warming=1, waiting=0, ended={"crash": 1})
        await until(lambda: two.warm == 2)
        assert two.state().idle == 2
        assert doomed not in two.pids


@pytest.mark.parametrize("leave", ["before", "after"])
async def test_a_call_that_leaves_the_line_as_its_turn_comes_costs_no_child(leave: str) -> None:
    async with lane() as one:
        await until(lambda: one.warm == 1)
        child = await one._take(None, time.monotonic() + 20)
        waiting = asyncio.create_task(one.run(chores.echo, 1, timeout_s=20))
        await until(lambda: one.state().waiting == 1)
        steps = [waiting.cancel, lambda: one._give_back(child)]
        for step in steps if leave == "before" else reversed(steps):
            step()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert one.state() == LaneState(busy=0, idle=1, warming=0, waiting=0, ended={})
        assert await one.run(chores.pid, timeout_s=20) == child.pid


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
async def test_a_child_goes_on_when_its_process_group_is_told_to_stop(tmp_path: Path, told: signal.Signals) -> None:
    async with lane() as one:
        call = asyncio.create_task(one.run(chores.hold, str(tmp_path / "held"), timeout_s=20))
        await until(lambda: (tmp_path / "held").exists() and (tmp_path / "held").read_text() != "")
        os.kill(int((tmp_path / "held").read_text()), told)
        (tmp_path / "held").unlink()
        assert await call == "done"


async def test_cancelling_a_call_kills_its_child(tmp_path: Path) -> None:
    async with lane() as one:
        call = asyncio.create_task(one.run(chores.loop_in_c, str(tmp_path / "looping"), timeout_s=50))
        await until(lambda: (tmp_path / "looping").exists() and (tmp_path / "looping").read_text() != "")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: gone(int((tmp_path / "looping").read_text())))
        assert await one.run(chores.echo, 1, timeout_s=20) == 1


@pytest.mark.parametrize("limit", ["alarm_s", "cpu_s"])
async def test_the_kernel_ends_a_loop_that_nobody_watches(limit: str) -> None:
    async with begun() as child:
        options: dict[str, Any] = {limit: 0.2}
        with pytest.raises(LaneCrashed):
            await child.call(Call(chores.never_end, (), {"deadline_s": 0.0}, **options), kill_after_s=50)


async def test_the_limits_of_a_call_do_not_outlast_it() -> None:
    async with begun() as child:
        call = Call(chores.left, (), {"deadline_s": 0.0}, alarm_s=0.3, cpu_s=0.3)
        assert await child.call(call, kill_after_s=20) == 0.0
        with pytest.raises(InternalError):
            await child.call(Call(chores.stumble, ("x",), {"deadline_s": 0.0}, alarm_s=0.3), kill_after_s=20)
        await asyncio.sleep(0.6)
        assert child.alive
        assert await child.call(Call(chores.work, (0.6,), {"deadline_s": 0.0}), kill_after_s=20) == "done"


async def test_errors_come_back_as_themselves_and_leave_the_child_in_use() -> None:
    async with lane() as one:
        first = await one.run(chores.pid, timeout_s=20)
        with pytest.raises(InvalidRecord) as caught:
            await one.run(chores.object_to, "/applicant/age", timeout_s=20)
        assert caught.value.faults == (Fault("/applicant/age", "is missing"),)
        assert await one.run(chores.pid, timeout_s=20) == first


def test_anything_unforeseen_is_an_internal_error_that_is_logged_without_its_message() -> None:
    # In a process of its own: whichever service is first in a process gives its standard error to all its children.
    met = subprocess.run([sys.executable, "-m", surprises.__name__], capture_output=True, text=True, timeout=100)
    assert met.stdout.count(f"{surprises.MET} and the pool goes on") == len(surprises.SURPRISES), met.stdout
    assert met.stderr.count('"child-error"') == len(surprises.SURPRISES)
    assert "secret" not in met.stderr


async def test_whoever_deletes_temporary_files_ends_no_pool() -> None:
    async with lane() as one:
        first = await one.run(chores.pid, timeout_s=20)
        shutil.rmtree(multiprocessing.util.get_temp_dir())
        os.kill(first, signal.SIGKILL)
        await until(lambda: gone(first))
        assert await one.run(chores.pid, timeout_s=100) != first


async def test_what_native_code_prints_does_no_harm() -> None:
    async with lane() as one:
        assert await one.run(chores.chatter, timeout_s=20) == "said"


async def test_the_line_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "WAITING_PER_CHILD", 2)

    async with lane() as one:
        calls = [asyncio.create_task(one.run(chores.hold, str(tmp_path / "held"), timeout_s=20))]
        await until((tmp_path / "held").exists)
        calls += [asyncio.create_task(one.run(chores.echo, k, timeout_s=20)) for k in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await one.run(chores.echo, 2, timeout_s=20)
        (tmp_path / "held").unlink()
        assert await asyncio.gather(*calls) == ["done", 0, 1]


async def test_a_call_tells_how_far_it_is_if_somebody_wants_to_know() -> None:
    async with lane() as one:
        told: list[tuple[int, int]] = []
        result = await one.run(chores.walk, 3, timeout_s=20, on_progress=lambda *step: told.append(step))
        assert (result, told) == ("there", [(1, 3), (2, 3), (3, 3)])
        assert await one.run(chores.echo, "well", timeout_s=20) == "well"


async def test_a_call_can_have_all_of_its_time_after_waiting(tmp_path: Path) -> None:
    async with lane() as one:
        holding = asyncio.create_task(one.run(chores.hold, str(tmp_path / "held"), timeout_s=20))
        await until((tmp_path / "held").exists)
        waiting = asyncio.create_task(one.run(chores.left, timeout_s=0.2, wait_s=20))
        await asyncio.sleep(0.5)
        (tmp_path / "held").unlink()
        assert await waiting == 0.2
        await holding
        with pytest.raises(LaneTimeout):
            await one.run(chores.never_end, timeout_s=0.2, wait_s=20)


async def test_a_call_ends_at_its_deadline_and_what_it_needs_is_loaded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE_S", 0.05)
    loading = tmp_path / "loading"
    loading.touch()

    async with lane() as one:
        await until(lambda: one.warm == 1)
        need = Need("model", chores.load, (str(loading),))
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(Overloaded, match="model is still being loaded") as refused:
                await one.run(chores.notes, timeout_s=0.3, need=need)
            assert refused.value.facts["retry_after_s"] > 0.0
            assert time.monotonic() - began < 0.3 + GRACE_S + 15
        assert one.loading == ["model"]
        loading.unlink()
        await until(lambda: not one.loading)
        assert await one.run(chores.notes, timeout_s=20, need=need) == [str(loading)], "it was loaded once"
        assert (one.state().ended, one.loading) == ({}, [])
        with pytest.raises(LaneTimeout):
            await one.run(chores.never_end, timeout_s=0.2, need=need)


async def test_a_call_that_waits_long_has_all_of_its_time_after_what_it_needs(tmp_path: Path) -> None:
    loading = tmp_path / "loading"
    loading.touch()

    async with lane() as one:
        need = Need("model", chores.load, (str(loading),))
        call = asyncio.create_task(one.run(chores.left, timeout_s=0.2, wait_s=30, need=need))
        await until(lambda: one.loading)
        await asyncio.sleep(0.3)
        loading.unlink()
        assert await call == 0.2


@pytest.mark.parametrize("idles", [True, False], ids=["waits for ever", "computes for ever"])
async def test_what_a_call_needs_first_has_a_limit_of_its_own(
    idles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "WALL_FACTOR", 3.0 if idles else 1000.0)
    (tmp_path / "loading").touch()

    async with lane(load_s=0.2) as one:
        first = await one.run(chores.pid, timeout_s=20)
        need = Need("model", *((chores.load, (str(tmp_path / "loading"),)) if idles else (chores.spin, ())))
        with pytest.raises(Overloaded, match="model was not loaded within"):
            await one.run(chores.echo, 1, timeout_s=20, need=need)
        assert await one.run(chores.pid, timeout_s=20) != first


async def test_a_busy_machine_ends_no_load(tmp_path: Path) -> None:
    """Time by the clock counts ten times less than processor time."""
    loading = tmp_path / "loading"
    loading.touch()

    async with lane(load_s=0.3) as one:
        need = Need("model", chores.load, (str(loading),))
        call = asyncio.create_task(one.run(chores.notes, timeout_s=20, need=need))
        await until(lambda: one.loading)
        await asyncio.sleep(1.0)
        loading.unlink()
        assert await call == [str(loading)]
        assert one.state().ended == {}


async def test_who_has_loaded_it_is_asked(tmp_path: Path) -> None:
    async with lane(2) as two:
        await until(lambda: two.warm == 2)
        a, b = (Need(name, chores.load, (name,)) for name in "ab")
        holding = asyncio.create_task(two.run(chores.hold, str(tmp_path / "held"), timeout_s=20, need=a))
        await until((tmp_path / "held").exists)
        assert await two.run(chores.notes, timeout_s=20, need=b) == ["b"]
        (tmp_path / "held").unlink()
        await holding
        for need in (a, b, b, a, a):
            assert await two.run(chores.notes, timeout_s=20, need=need) == [need.name]


async def test_what_cannot_be_loaded_is_told_until_it_can() -> None:
    async with lane() as one:
        first = await one.run(chores.pid, timeout_s=20)
        with pytest.raises(ModelUnusable):
            await one.run(chores.echo, 1, timeout_s=20, need=Need("model", chores.load, ("damaged",)))
        assert one.problems == {"model": "is damaged"}
        need = Need("model", chores.load, ("mended",))
        assert await one.run(chores.pid, timeout_s=20, need=need) == first, "the child stays in use"
        assert one.problems == {}


async def test_what_a_new_child_cannot_load_is_told() -> None:
    poor = Pool("poor", 1, needs=lambda: [Need("model", chores.load, ("damaged",))])
    poor.start()
    try:
        await until(lambda: poor.problems == {"model": "is damaged"})
        assert poor.warm == 1
    finally:
        await poor.close()


@pytest.mark.parametrize("at", ["start", "request"])
async def test_others_are_answered_while_a_model_takes_long_to_load(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE_S", 0.05)
    slow, good = Need("slow", chores.load, (str(tmp_path / "slow"),)), Need("good", chores.load, ("good",))
    (tmp_path / "slow").touch()

    async with lane(needs=lambda: [slow] if at == "start" else []) as one:
        calls = [asyncio.create_task(one.run(chores.notes, timeout_s=20, need=slow)) for _ in range(3)]
        for _ in range(2):
            assert await one.run(chores.notes, timeout_s=20, need=good) == ["good"]
        # The two calls that came later wait without a child.
        await until(lambda: len(one.pids) == 2 and one.state().idle == 1)
        with pytest.raises(Overloaded, match="slow is still being loaded"):
            await one.run(chores.echo, 1, timeout_s=0.1, need=slow)
        (tmp_path / "slow").unlink()
        for call in calls:
            assert str(tmp_path / "slow") in await call
        await until(lambda: len(one.pids) == 1 and one.state().idle == 1)
        assert str(tmp_path / "slow") in await one.run(chores.notes, timeout_s=20), "who has loaded it stays"
        assert (one.state(), one.warm) == (LaneState(busy=0, idle=1, warming=0, waiting=0, ended={}), 1)


async def test_a_lane_starts_once() -> None:
    async with lane() as one:
        one.start()
        await one.run(chores.pid, timeout_s=20)
        assert len(one.pids) == 1


async def test_a_call_that_waits_in_vain_ends_with_its_time(tmp_path: Path) -> None:
    async with lane() as one:
        holding = asyncio.create_task(one.run(chores.hold, str(tmp_path / "held"), timeout_s=20))
        await until((tmp_path / "held").exists)
        with pytest.raises(Overloaded):
            await one.run(chores.echo, 1, timeout_s=0.1)
        (tmp_path / "held").unlink()
        await holding
        assert await one.run(chores.echo, 1, timeout_s=20) == 1


async def test_children_work_at_the_same_time(tmp_path: Path) -> None:
    async with lane(2) as two:
        paths = [tmp_path / "a", tmp_path / "b"]
        calls = [asyncio.create_task(two.run(chores.hold, str(path), timeout_s=20)) for path in paths]
        await until(lambda: all(path.exists() for path in paths))
        for path in paths:
            path.unlink()
        assert await asyncio.gather(*calls) == ["done", "done"]


async def test_a_child_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETRY_S", 0.01)

    async with lane() as one:
        with no_files():
            with pytest.raises(Overloaded):
                await one.run(chores.echo, 1, timeout_s=0.5)
            assert one.warm == 0
        assert await one.run(chores.echo, 1, timeout_s=20) == 1
        await until(lambda: one.warm == 1)


async def test_a_child_whose_needs_cannot_be_listed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETRY_S", 0.01)
    listings: list[int] = []

    def needs() -> list[Need]:
        listings.append(1)
        if len(listings) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return []

    async with lane(needs=needs) as one:
        assert await one.run(chores.echo, 1, timeout_s=20) == 1
        await until(lambda: len(listings) == 2)
        assert (one.warm, len(one.pids)) == (1, 1)


async def test_closing_kills_children_whatever_they_do(tmp_path: Path) -> None:
    async with lane(2) as two:
        call = asyncio.create_task(two.run(chores.loop_in_c, str(tmp_path / "looping"), timeout_s=50))
        await until((tmp_path / "looping").exists)
        await until(lambda: two.warm == 2)
        pids = two.pids
        assert len(pids) == 2
    with pytest.raises(LaneCrashed):
        await call
    assert two.warm == 0
    assert all(gone(pid) for pid in pids)
