"""The template: it forks children, kills them, and is replaced with them when it dies."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.compute import child_template as template_module
from app.compute import lane as lane_module
from app.compute import parent as parent_module
from app.compute.child import Call
from app.compute.child_template import Template, template
from app.compute.lane import Lane
from app.compute.parent import Child
from app.errors import LaneTimeout
from tests.compute import chores
from tests.conftest import until
from tests.event_loop import run
from tests.processes import children, gone

pytestmark = pytest.mark.slow


async def warm(size: int = 1) -> Lane:
    lane = Lane("test", size, chores.prepare)
    lane.start()
    while lane.warm < size:
        await asyncio.sleep(0.005)
    return lane


def test_one_template_forks_the_children_of_all_lanes_and_has_one_thread() -> None:
    async def work() -> None:
        lanes = [await warm(), await warm(2)]
        pids = {pid for lane in lanes for pid in lane.pids}
        assert len(pids) == 3
        assert pids <= set(children(template().pid))
        assert len(os.listdir(f"/proc/{template().pid}/task")) == 1
        await asyncio.gather(*(lane.close() for lane in lanes))
        assert not pids & set(children(template().pid))

    run(work())


def test_children_do_not_draw_the_same_random_numbers() -> None:
    async def work() -> None:
        drawn = []
        for _ in range(2):
            lane = await warm()
            drawn += await lane.run(chores.draw, timeout_s=20)
            await lane.close()
        assert len(set(drawn)) == 4

    run(work())


def test_a_template_that_dies_takes_its_children_with_it_and_both_are_replaced(
    own_template: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "RETRY_S", 0.01)

    async def work() -> None:
        lane = await warm(2)
        first, pids = template(), lane.pids
        os.kill(first.pid, signal.SIGKILL)
        while lane.warm:
            await asyncio.sleep(0.005)
        assert await lane.run(chores.echo, "well", timeout_s=50) == "well"
        assert template().pid != first.pid
        assert all(gone(pid) for pid in pids)
        await lane.close()

    run(work())


def test_a_template_that_never_forks_is_ended(own_template: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(channel: socket.socket) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["sleep", "600"], pass_fds=[channel.fileno()])

    monkeypatch.setattr(template_module, "END_S", 0.1)

    async def work() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(template_module, "start_process", stuck)
            child = Child(0)
            first = template()
            with pytest.raises(LaneTimeout):
                await child.call(Call(chores.pid, (), {"deadline_s": 0.0}), kill_after_s=0.2)
            await child.kill()
        assert not first.alive
        child = Child(0)
        assert await child.call(Call(chores.pid, (), {"deadline_s": 0.0}), kill_after_s=50) == child.pid
        await child.kill()

    run(work())


def test_a_child_without_a_template_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Template:
        raise BlockingIOError

    opened: list[socket.socket] = []
    pair = socket.socketpair

    def kept_pair() -> tuple[socket.socket, socket.socket]:
        opened.extend(ends := pair())
        return ends

    monkeypatch.setattr(parent_module, "template", refuse)
    monkeypatch.setattr(socket, "socketpair", kept_pair)
    with pytest.raises(BlockingIOError):
        Child(0)
    left = [end for end in opened if end.fileno() != -1]
    for end in opened:
        end.close()
    assert not left


@pytest.fixture(scope="module")
def one() -> Iterator[Template]:
    """A template without a lane."""
    one = Template()
    yield one
    one.end()
    assert not one.alive


@contextmanager
def forked(one: Template) -> Iterator[int]:
    """The number of a child that has begun."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            number = one.fork(theirs, 0, 0)
        ours.settimeout(60)
        assert ours.recv(1)
        yield number


def test_what_has_ended_is_not_killed_again(one: Template) -> None:
    with forked(one) as number:
        (first,) = children(one.pid)
        with forked(one):
            (second,) = set(children(one.pid)) - {first}
            for ended in (number, number, number + 1000):
                one.kill(ended)
            assert gone(first)
            assert children(one.pid) == [second]


def test_a_child_that_nobody_wants_any_more_ends_by_itself(one: Template) -> None:
    with forked(one):
        pids = children(one.pid)
    until(lambda: all(gone(pid) for pid in pids), within_s=20)


def test_stop_signals_are_for_the_server_alone(one: Template) -> None:
    with forked(one) as number:
        for told in (signal.SIGINT, signal.SIGTERM):
            for pid in (one.pid, *children(one.pid)):
                os.kill(pid, told)
        with forked(one) as other:
            assert len(children(one.pid)) == 2
            for told_to in (number, other):
                one.kill(told_to)
        assert one.alive
        assert not children(one.pid)


def test_children_end_with_their_template(one: Template) -> None:
    mine = Template()
    with forked(mine):
        pids = children(mine.pid)
        mine.end()
        assert all(gone(pid) for pid in pids)
    mine.end()
    mine.kill(1)
    assert not mine.alive
    assert one.alive
