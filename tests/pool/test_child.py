"""Children as processes: who forks them, what they share, when they end."""

import asyncio
import multiprocessing
import os
import signal
import socket
import subprocess
import sys

import pytest

from app.pool import child as child_module
from app.pool import pool as pool_module
from app.pool.child import Child
from app.pool.pool import Pool
from tests.event_loop import until
from tests.pool import chores
from tests.processes import children, fork_servers, gone

pytestmark = pytest.mark.slow


async def warm(size: int = 1) -> Pool:
    pool = Pool("test", size)
    pool.start()
    await until(lambda: pool.warm == size)
    return pool


async def test_one_fork_server_forks_the_children_of_all_pools_and_has_one_thread() -> None:
    pools = [await warm(), await warm(2)]
    pids = {pid for pool in pools for pid in pool.pids}
    assert len(pids) == 3
    (forking,) = fork_servers(os.getpid())
    assert pids <= set(children(forking))
    assert len(os.listdir(f"/proc/{forking}/task")) == 1
    await asyncio.gather(*(pool.close() for pool in pools))
    assert not pids & set(children(forking))


CUT_SHORT = """
import os
from multiprocessing import forkserver
from app.pool.child import start_fork_server

start_fork_server()
for sent in (b"", b"\\x80\\x04"):
    status, data = forkserver.connect_to_new_process([])
    forkserver.read_signed(status)
    os.write(data, sent)
    os.close(data)
    assert forkserver.read_signed(status) != 0
"""


def test_a_child_whose_server_ends_while_it_begins_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", CUT_SHORT], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


STOPPED = """
import asyncio
from contextlib import suppress
from app.pool.child import Child

async def stop_while_they_begin():
    first = Child()
    await first.start(lambda one: None)
    for k in range(150):
        child = Child()
        beginning = asyncio.ensure_future(child.start(lambda one: None))
        await asyncio.sleep(k * 4e-5)
        beginning.cancel()
        with suppress(asyncio.CancelledError):
            await beginning
        await child.kill()
    await asyncio.sleep(0.5)
    await first.kill()

asyncio.run(stop_while_they_begin())
"""


def test_a_child_that_is_stopped_while_it_begins_gets_no_socket_of_another() -> None:
    """A socket that is closed while it is handed over leaves its number to the next one that is opened."""
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


async def test_children_do_not_draw_the_same_random_numbers() -> None:
    drawn = []
    for _ in range(2):
        pool = await warm()
        drawn += await pool.run(chores.draw, timeout_s=20)
        await pool.close()
    assert len(set(drawn)) == 4


async def test_a_child_has_imported_what_questions_need_when_it_begins() -> None:
    pool = await warm()
    assert await pool.run(chores.imported, ["numpy", "scipy", "app.recourse.solve"], timeout_s=20) == [True] * 3
    await pool.close()


async def test_a_fork_server_that_dies_takes_its_children_with_it_and_both_are_replaced(
    own_fork_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "RETRY_S", 0.01)

    pool = await warm(2)
    (first,), pids = fork_servers(os.getpid()), pool.pids
    os.kill(first, signal.SIGKILL)
    await until(lambda: not pool.pids & pids)
    assert await pool.run(chores.echo, "well", timeout_s=50) == "well"
    assert fork_servers(os.getpid()) != [first]
    assert all(gone(pid) for pid in pids)
    await pool.close()


async def test_stop_signals_are_for_the_server_alone() -> None:
    pool = await warm()
    (forking,), (pid,) = fork_servers(os.getpid()), pool.pids
    for told in (signal.SIGINT, signal.SIGTERM):
        for one in (forking, pid):
            os.kill(one, told)
    assert await pool.run(chores.pid, timeout_s=20) == pid
    other = await warm()
    assert other.pids < set(children(forking))
    for one in (pool, other):
        await one.close()


def test_a_child_that_nobody_wants_any_more_ends_by_itself() -> None:
    """In a process of its own, whose fork server has no children of services that other tests share."""
    alone = multiprocessing.get_context("spawn").Process(target=close_while_children_begin)
    alone.start()
    alone.join(120)
    assert alone.exitcode == 0


def close_while_children_begin() -> None:
    async def work() -> None:
        pool = Pool("test", 2)
        pool.start()
        await until(lambda: pool.state().warming == 2 and fork_servers(os.getpid()))
        await pool.close()
        other = await warm()
        (forking,) = fork_servers(os.getpid())
        await until(lambda: set(children(forking)) == other.pids)
        await other.close()

    asyncio.run(work())


async def test_a_child_that_cannot_be_forked_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise BlockingIOError

    opened: list[socket.socket] = []
    pair = socket.socketpair

    def kept_pair() -> tuple[socket.socket, socket.socket]:
        opened.extend(ends := pair())
        return ends

    monkeypatch.setattr(child_module, "start_fork_server", refuse)
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socketpair", kept_pair)
        child = Child()
    with pytest.raises(BlockingIOError):
        await child.start(lambda _child: None)
    await child.kill()
    left = [end for end in opened if end.fileno() != -1]
    for end in opened:
        end.close()
    assert len(opened) == 2
    assert not left
