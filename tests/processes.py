"""Looking at other processes, as Linux shows them."""

from pathlib import Path


def _status(pid: int) -> list[str] | None:
    try:
        # State, parent and more follow the name in brackets, which may itself hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits for its parent to notice (a zombie) has."""
    status = _status(pid)
    return status is None or status[0] == "Z"


def children(parent: int) -> list[int]:
    """Process ids of the living children of a process."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if (status := _status(pid)) and status[1] == str(parent) and status[0] != "Z"]


def lane_children(server: int) -> list[int]:
    """Process ids of the living children of a server's lanes, which are forks of its fork server.

    No other child of a server has children. The command line of the fork server is not always its own (`tests.forks`).
    """
    return [pid for child in children(server) for pid in children(child)]


def fork_servers(server: int) -> list[int]:
    """Process ids of the fork servers of a process: one at most, but where it has just been replaced."""
    return [pid for pid in children(server) if b"multiprocessing.forkserver" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
