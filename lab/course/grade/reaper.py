"""Keeping what an answer starts within reach, and ending it; on Linux, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36  # of prctl(2)
PATIENCE = 5.0  # seconds for descendants that start new ones as fast as they are killed


def become_reaper() -> None:
    """Adopt every orphan among the descendants, whatever session or environment it chose.

    The process also hides its memory and its open files from others of the same user: from the answers.
    """
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def end_descendants(pid: int) -> None:
    """Kill the descendants of `pid` until none runs any more."""
    due = time.monotonic() + PATIENCE
    while (running := _descendants(pid)) and time.monotonic() < due:
        for descendant in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Those that still run: what is dead and waits for its parent cannot be killed again."""
    table = _processes()
    family = [pid]
    for parent in family:
        family.extend(child for child, (above, _) in table.items() if above == parent)
    return [child for child in family[1:] if table[child][1] not in "ZX"]


def _processes() -> dict[int, tuple[int, str]]:
    """Process → its parent and its state, from /proc."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended in between
            state, parent = path.read_bytes().rpartition(b")")[2].split()[:2]
            found[int(path.parent.name)] = (int(parent), state.decode())
    return found
