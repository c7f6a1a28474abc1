"""What we add to nbval: private sockets, a dead kernel noticed at once, and a report that a program can read.

Loaded with `-p lab.course.nbval_plugin`. When LAB_NBVAL_REPORT names an existing file, one JSON object a
code cell is appended to it as soon as the cell is done, so that a killed run still tells how far it came.
The file is opened and its name taken away before a kernel starts: an answer that knew it could write rows.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Generator
from queue import Empty
from typing import Any

import nbval.kernel
import pytest
from jupyter_client.manager import KernelManager

REPORT = "LAB_NBVAL_REPORT"
POLL = 0.1  # seconds between two looks at whether the kernel lives
MAX_TEXT = 20_000  # characters of one stream that are reported


_STREAM = pytest.StashKey[int]()  # the open report, which no child inherits


class KernelDied(Exception):
    """The kernel process ended while a cell ran."""


def pytest_configure(config: pytest.Config) -> None:
    """Open the report, and let kernels talk through sockets in the runtime folder: no TCP ports to race for."""
    path = os.environ.pop(REPORT, None)
    if path:
        config.stash[_STREAM] = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.unlink(path)
    runtime = os.environ.get("JUPYTER_RUNTIME_DIR")
    if runtime:
        sockets = os.path.join(runtime, f"zmq{os.getpid()}")
        private = functools.partial(KernelManager, transport="ipc", ip=sockets)
        vars(nbval.kernel)["KernelManager"] = private


@pytest.hookimpl(trylast=True)  # after pytest has set up the notebook, which starts the kernel
def pytest_runtest_setup(item: Any) -> None:
    """Watch the kernel of this notebook, once."""
    kernel = getattr(item.parent, "kernel", None)
    if kernel is not None and "get_message" not in vars(kernel):
        kernel.get_message = _watching(kernel, kernel.get_message)


def _watching(kernel: Any, get_message: Callable[..., Any]) -> Callable[..., Any]:
    """`get_message`, which raises as soon as the kernel is dead instead of waiting for its whole timeout."""

    def watched(stream: str, timeout: float | None = None) -> Any:
        due = None if timeout is None else time.monotonic() + timeout
        while True:
            left = POLL if due is None else min(POLL, max(0.0, due - time.monotonic()))
            try:
                return get_message(stream, timeout=left)
            except Empty:
                if not kernel.is_alive():
                    raise KernelDied("the kernel died while this cell ran") from None
                if due is not None and time.monotonic() >= due:
                    raise

    return watched


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: Any, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append what happened to this cell, once: after its call, or when its setup failed or was skipped."""
    report = yield
    stream = item.config.stash.get(_STREAM, None)
    if stream is not None and (report.when == "call" or (report.when == "setup" and not report.passed)):
        os.write(stream, (json.dumps(_row(item, call, report)) + "\n").encode())
    return report


def _row(item: Any, call: pytest.CallInfo[None], report: pytest.TestReport) -> dict[str, Any]:
    """What is known of one cell. After a cell that timed out nbval expects failures; we take what comes."""
    raised = call.excinfo.value if call.excinfo is not None else None
    earlier = getattr(item.parent, "timed_out_before", False)
    item.parent.timed_out_before = item.parent.timed_out
    return {
        "index": item.cell_num,
        "passed": report.outcome == "passed",
        "outputs": _short(item.test_outputs or []),
        "message": str(raised) if raised is not None else "",
        "timed_out": bool(item.parent.timed_out) and not earlier,
        "kernel_died": isinstance(raised, KernelDied),
        "ran": "Kernel dead" not in str(raised),
    }


def _short(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The streams, cut, and the errors; pictures and results are nobody's business here."""
    found: list[dict[str, Any]] = []
    for output in outputs:
        if output["output_type"] == "stream":
            found.append({**output, "text": output["text"][:MAX_TEXT]})
        elif output["output_type"] == "error":
            found.append({**output, "traceback": []})
    return found
