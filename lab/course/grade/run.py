"""Running an assembled notebook under nbval: in a clean folder, in a process of its own, with a time limit.

Importing pytest and nbval costs far more than running a small notebook. So they are imported once, in
multiprocessing's fork server, and each submission gets a fresh fork of it. A fork is its own session and
adopts the orphans below it, so that what an answer started is found and killed at the end. Should the fork
itself be killed, a token in the environment of what it started is left to find it by.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from lab.course.grade.reaper import become_reaper, end_descendants
from lab.course.grade.rows import Row, read_rows
from lab.course.kernel import environment
from lab.course.nbval import NBVAL_FLAGS
from lab.course.notebook import Notebook, dumps
from lab.course.proc import carriers

TOKEN = "LAB_GRADE_TOKEN"
_REPORT = "LAB_NBVAL_REPORT"
POLL = 0.2  # seconds between two looks at `stop`; the end of a run is noticed at once
_LOST = 255  # multiprocessing's status of a process whose fork server is gone
_LOG_END = 4000  # characters of nbval's output that are kept


@dataclass(frozen=True, slots=True)
class Ran:
    """What came out of a run: one row per finished code cell, by index; None when somebody else wrote rows."""

    rows: dict[int, Row] | None
    killed: bool  # the time was over
    log: str  # the end of nbval's own output
    signal: str = ""  # what ended nbval, when it was not us: "SIGKILL"


def run(notebook: Notebook, name: str, root: Path, timeout: float, stop: Event) -> Ran:
    """Run `notebook` as `name` against the workbook at `root`; at most `timeout` seconds, half of it per cell.

    `stop` ends the run early: somebody interrupted the batch.
    """
    with _scratch() as base:
        folder, report, log = base / "chapter", base / "report.jsonl", base / "nbval.log"
        folder.mkdir()
        (folder / name).write_text(dumps(notebook), encoding="utf-8", newline="\n")
        values = _environment(root, base, report)
        arguments = [*NBVAL_FLAGS, f"--nbval-cell-timeout={timeout / 2:g}", "--color=no", "-q"]
        arguments += ["--rootdir", str(folder), str(folder / name)]
        report.touch()
        with report.open("rb") as written:  # before the run, which takes the file's name away
            status = _in_a_fork(arguments, values, folder, log, time.monotonic() + timeout, stop)
            said = _read_end(log) if status != _LOST else "the fork server ended during this run: grade again"
            return Ran(read_rows(written.read()), status is None, said, _signal_name(status))


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder that is gone afterwards; what cannot be removed costs no grade."""
    scratch = tempfile.TemporaryDirectory(prefix="lab-grade-", ignore_cleanup_errors=True)
    try:
        yield Path(scratch.name)
    finally:
        for _ in range(3):  # a process that is just being killed may still have written
            with contextlib.suppress(OSError):
                scratch.cleanup()


def _environment(root: Path, base: Path, report: Path) -> dict[str, str]:
    home, temporary = base / "home", base / "tmp"
    home.mkdir()
    temporary.mkdir()
    values = environment(root, base)
    values.update(
        {
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(base / "matplotlib")),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            TOKEN: secrets.token_hex(16),
            _REPORT: str(report),
        }
    )
    return values


def _in_a_fork(
    arguments: list[str], values: dict[str, str], folder: Path, log: Path, due: float, stop: Event
) -> int | None:
    """Run pytest in a fork of the fork server; its status, or None when it was killed at the monotonic time `due`.

    A status below zero is the signal that ended it.
    """
    process = _context().Process(target=_work, args=(arguments, values, str(folder), str(log)), daemon=True)
    process.start()
    try:
        while process.is_alive() and time.monotonic() < due and not stop.is_set():
            process.join(min(POLL, max(0.0, due - time.monotonic())))
        return None if process.is_alive() else int(process.exitcode)
    finally:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, signal.SIGSTOP)  # it starts nothing more, and goes on adopting
            end_descendants(process.pid)
        process.kill()  # by its own id: so early it may not be a session yet
        process.join()
        _kill(process.pid, values[TOKEN])
        process.close()


def _signal_name(status: int | None) -> str:
    if status is None or status >= 0:
        return ""
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [__name__, "lab.course.quick_nbformat", "lab.course.nbval_plugin", "nbval.plugin"]
    )
    return context


def _work(arguments: list[str], values: dict[str, str], folder: str, log: str) -> None:
    """In the fork: become a session, take the environment, run pytest, end what it left, and leave at once."""
    os.setsid()
    become_reaper()
    os.environ.clear()
    os.environ.update(values)
    tempfile.tempdir = None  # the parent's choice of a temporary folder may be cached
    os.chdir(folder)
    sys.path[:] = [entry for entry in sys.path if entry]
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    import pytest

    status = pytest.main(["-p", "nbval.plugin", *arguments])  # no entry points are loaded, so name it
    sys.stdout.flush()
    end_descendants(os.getpid())
    os._exit(int(status))


def _kill(pid: int | None, token: str) -> None:
    """End what is left of the fork's session, and all that carries its token, however it tried to get away."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    while found := carriers(TOKEN, token):
        for straggler in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(straggler, signal.SIGKILL)


def _read_end(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_LOG_END:] if log.exists() else ""
