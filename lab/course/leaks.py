"""What a chapter may leave behind: nothing. Tasks, threads, processes and ports against a baseline.

`setup()` in the first cell takes the baseline; `leak_check()` in the last one compares. What belongs to
the kernel itself is not counted: its tasks come from its own packages, and its threads, children and
ports existed before. Processes and ports are read from /proc; without it only tasks and threads count.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from lab.course.errors import LeakError
from lab.course.proc import carriers, command_name, descendants, listening_ports

GRACE = 2.0  # seconds that threads and processes which are ending may take
TOKEN = "LAB_LEAK_TOKEN"  # inherited by every child, also by one that has left the process tree
KERNEL_PACKAGES = ("ipykernel", "IPython", "tornado", "zmq", "anyio", "jupyter_client", "comm")
IDLE_POOLS = ("asyncio_", "AnyIO worker thread")  # idle pool threads live as long as their loop
SUBSHELLS = "subshell-"  # the kernel's own: JupyterLab has it make one for the messages of widgets


@dataclass(slots=True)
class Baseline:
    """What existed before the first cell."""

    tasks: weakref.WeakSet[asyncio.Task[object]] = field(default_factory=weakref.WeakSet)
    threads: weakref.WeakSet[threading.Thread] = field(default_factory=weakref.WeakSet)
    processes: frozenset[int] = frozenset()
    ports: frozenset[int] = frozenset()


_baseline = Baseline()


def setup() -> None:
    """For the first cell of a chapter: take the leak baseline and print "Setup complete"."""
    take_baseline()
    print("Setup complete")


def take_baseline() -> None:
    """Remember the tasks, threads, processes and ports of this moment."""
    global _baseline
    os.environ[TOKEN] = secrets.token_hex(8)
    _baseline = Baseline(
        weakref.WeakSet(_tasks()),
        weakref.WeakSet(threading.enumerate()),
        frozenset(descendants()),
        frozenset(listening_ports()),
    )


def leak_check() -> None:
    """For the last cell of a chapter: print "no leaks".

    :raises LeakError: something was left behind, named in the message; or setup() was not called
    """
    if TOKEN not in os.environ:
        raise LeakError("there is no baseline: run the first cell, setup()")
    leaks = find_leaks()
    if leaks:
        raise LeakError("left behind: " + "; ".join(leaks))
    print("no leaks")


def find_leaks(grace: float = GRACE) -> list[str]:
    """What is there now and was not at the baseline, one line each. Waits up to `grace` seconds for it to end."""
    deadline = time.monotonic() + grace
    while True:
        leaks = [
            line
            for kind in (_leaked_tasks, _leaked_threads, _leaked_processes, _leaked_ports)
            for line in kind()
        ]
        if not leaks or time.monotonic() >= deadline:
            return leaks
        time.sleep(0.02)


def _leaked_tasks() -> list[str]:
    return sorted(f"task {_task_name(task)}" for task in _tasks() if task not in _baseline.tasks)


def _tasks() -> list[asyncio.Task[object]]:
    """The unfinished tasks of the running loop that are neither the kernel's own nor the current one."""
    try:
        current = asyncio.current_task()
        found = asyncio.all_tasks()
    except RuntimeError:  # no running loop
        return []
    return [task for task in found if task is not current and not _is_kernels(task)]


def _is_kernels(task: asyncio.Task[object]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    parts = Path(code.co_filename).parts if code is not None else ()
    return any(package in parts for package in KERNEL_PACKAGES)


def _task_name(task: asyncio.Task[object]) -> str:
    coroutine = task.get_coro()
    return str(getattr(coroutine, "__qualname__", type(coroutine).__name__))


def _leaked_threads() -> list[str]:
    return sorted(
        f"thread {thread.name}"
        for thread in threading.enumerate()
        if thread not in _baseline.threads and not thread.name.startswith((*IDLE_POOLS, SUBSHELLS))
    )


def _leaked_processes() -> list[str]:
    found = set(descendants()) | set(carriers(TOKEN, os.environ.get(TOKEN, "?")))
    found -= _baseline.processes | _own_helpers() | {os.getpid()}
    return [f"process {command_name(pid)}" for pid in sorted(found)]


def _own_helpers() -> set[int]:
    """The helper of multiprocessing that stays for the life of the interpreter, on purpose."""
    from multiprocessing import resource_tracker

    tracker = getattr(resource_tracker, "_resource_tracker", None)
    pid = getattr(tracker, "_pid", None)
    return {pid} if isinstance(pid, int) else set()


def _leaked_ports() -> list[str]:
    return [f"listening port {port}" for port in sorted(listening_ports() - _baseline.ports)]
