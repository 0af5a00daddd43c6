"""What processes cost: processor time and memory of a process and of those that it has started, on Linux."""

import os
from collections.abc import Mapping
from pathlib import Path


def descendants(pid: int) -> tuple[list[int], list[int]]:
    """The processes below one: children that compute, and what serves them, as `multiprocessing`'s tracker does."""
    living = map(int, filter(str.isdecimal, os.listdir("/proc")))
    parents = {each: parent for each in living if (parent := _parent(each))}
    found = _below(pid, parents)
    leaves = [each for each in found if each not in parents.values() and not _is_tracker(each)]
    return leaves, [each for each in found if each not in leaves]


def _is_tracker(pid: int) -> bool:
    return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()


def cpu_s(pid: int) -> float:
    """Processor time so far; 0 for a process that has ended."""
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") if stat else 0.0


def memory_mb(pid: int) -> tuple[float, float]:
    """Memory that only this process holds, and what it shares with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    held = {name: int(size) / 1024 for name, size, *_ in map(str.split, lines)}
    own = held["Private_Clean:"] + held["Private_Dirty:"]
    return own, held["Rss:"] - own


def _below(pid: int, parents: Mapping[int, int]) -> list[int]:
    children = [child for child, parent in parents.items() if parent == pid]
    return children + [one for child in children for one in _below(child, parents)]


def _parent(pid: int) -> int:
    """The parent of a living process; 0 if it has ended."""
    stat = _stat(pid)
    return int(stat[1]) if stat and stat[0] != "Z" else 0


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
