"""JupyterLab on a working copy, and a Chromium that looks at it."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest

from lab.course.jupyter import Launch, plan
from lab.course.working import find_chapter, top_up

ROOT = Path(__file__).parents[2]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "/usr/bin/chromium")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium. Without one: skipped on a laptop, a failure in CI."""
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        message = "no Chromium found: apt install chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def chapter_01(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[str]:
    """The URL of chapter 01 in a JupyterLab of its own, on a fresh working copy."""
    work = tmp_path_factory.mktemp("work")
    top_up(ROOT, work)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    launch = plan(ROOT, find_chapter(work, "01"), port=port, browser=False)
    with (work / "jupyter.log").open("w") as log:
        server = subprocess.Popen(
            launch.command, env=dict(launch.environment), cwd=work, stdout=log, stderr=log
        )
        try:
            _wait_until_up(launch, server, work / "jupyter.log")
            yield launch.url
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)  # it ends its kernels first
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_until_up(launch: Launch, server: subprocess.Popen[bytes], log: Path, patience: float = 60) -> None:
    deadline = monotonic() + patience
    while monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            if httpx.get(launch.url, follow_redirects=True).is_success:
                return
        except httpx.HTTPError:
            sleep(0.1)
    pytest.fail(f"JupyterLab did not come up:\n{log.read_text()}")
