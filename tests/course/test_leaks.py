"""The leak check names what was left behind, and ignores what belongs to the kernel."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.course import leak_check, setup
from lab.course.errors import LeakError
from lab.course.leaks import TOKEN, find_leaks, take_baseline

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@pytest.fixture(autouse=True)
def baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "replaced")  # so that monkeypatch puts the old state back
    take_baseline()


def test_setup_and_a_clean_chapter_print_their_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    leak_check()
    assert capsys.readouterr().out == "Setup complete\nno leaks\n"


def test_without_a_baseline_there_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN)
    with pytest.raises(LeakError, match="run the first cell"):
        leak_check()


def test_a_task_is_named() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def chapter() -> list[str]:
        take_baseline()
        task = asyncio.create_task(forgotten())
        leaks = find_leaks(grace=0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert find_leaks(grace=0) == []
        return leaks

    name = "test_a_task_is_named.<locals>.forgotten"
    assert asyncio.run(chapter()) == [f"task {name}"]


def test_a_thread_is_named_and_one_that_ends_in_time_is_none() -> None:
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="reader")
    thread.start()
    try:
        assert find_leaks(grace=0) == ["thread reader"]
    finally:
        go.set()
    assert find_leaks(grace=10) == []
    thread.join()


def test_a_listening_port_is_named_and_a_connection_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert find_leaks(grace=0) == [f"listening port {port}"]
    assert find_leaks(grace=0) == []


@contextlib.contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_child_is_named() -> None:
    with sleeper():
        assert find_leaks(grace=0) == ["process sleep"]
    assert find_leaks(grace=0) == []


def test_a_child_that_left_the_process_tree_is_named() -> None:
    code = (
        "import subprocess;"
        " child = subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=subprocess.DEVNULL);"
        " child.returncode = 0;"  # it is not waited for, on purpose
        " print(child.pid, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
    try:
        assert find_leaks(grace=0) == ["process sleep"]
    finally:
        os.kill(pid, signal.SIGKILL)
    assert find_leaks(grace=10) == []


def test_the_error_lists_everything() -> None:
    with sleeper(), socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(find_leaks, "__defaults__", (0,))
        with pytest.raises(
            LeakError, match=f"left behind: process sleep; listening port {server.getsockname()[1]}"
        ):
            leak_check()


def test_the_kernels_own_subshell_for_widget_messages_is_none() -> None:
    take_baseline()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="subshell-1b4b0a9c", daemon=True)
    thread.start()
    try:
        assert find_leaks(grace=0) == []
    finally:
        release.set()
        thread.join()
