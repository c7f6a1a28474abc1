"""Processes and ports as /proc shows them; everything is empty where there is no /proc."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def descendants() -> list[int]:
    """Children of this process and their children; zombies too, for nobody waited for them."""
    parents = {}
    for pid in _pids():
        fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()
        if len(fields) > 1:
            parents[pid] = int(fields[1])
    found = [os.getpid()]
    for parent in found:
        found.extend(pid for pid, above in parents.items() if above == parent)
    return found[1:]


def carriers(name: str, value: str) -> list[int]:
    """Processes that were started with this environment variable, wherever they are in the tree now."""
    mark = f"{name}={value}"
    return [pid for pid in _pids() if mark in _read(_PROC / str(pid) / "environ").split("\0")]


def listening_ports() -> set[int]:
    """TCP ports on which this process itself listens."""
    inodes = _own_sockets()
    ports = set()
    for table in ("tcp", "tcp6"):
        for row in _read(_PROC / "self" / "net" / table).splitlines()[1:]:
            columns = row.split()
            if columns[3] == "0A" and columns[9] in inodes:
                ports.add(int(columns[1].rpartition(":")[2], 16))
    return ports


def command_name(pid: int) -> str:
    """The short name of a process, for messages."""
    return _read(_PROC / str(pid) / "comm").strip() or "(gone)"


def _own_sockets() -> set[str]:
    found = set()
    folder = _PROC / "self" / "fd"
    for name in _names(folder):
        try:
            target = os.readlink(folder / name)
        except OSError:
            continue  # closed in between
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def _pids() -> list[int]:
    return [int(name) for name in _names(_PROC) if name.isdigit()]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: Path) -> str:
    """The text of a /proc file; empty when the process is gone or belongs to somebody else."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
