"""Starting JupyterLab on the working copy with settings of its own: nothing of the user's is read or changed."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lab.course.errors import CourseError

HOST = "127.0.0.1"
_NOTIFICATIONS = "lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line, its environment, and the URL under which it will answer."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    url: str


def plan(root: Path, chapter: Path, *, port: int | None, browser: bool) -> Launch:
    """How to start JupyterLab on `chapter`, a notebook in the working copy. Writes its settings folder.

    `port` None takes 8888, or any free one when that is taken.

    :raises CourseError: the port asked for is taken
    """
    folder, settings = chapter.parent, chapter.parent / ".jupyter"
    _write_settings(settings)
    chosen = _free_port(port)
    token = secrets.token_hex(16)
    target = f"/lab/tree/{quote(chapter.name)}"
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={chosen}",
        "--ServerApp.port_retries=0",
        "--ServerApp.kernel_websocket_connection_class=lab.course.kernel_socket.PromptConnection",
        f"--LabApp.default_url={target}",
        "--ServerApp.answer_yes=True",  # one Ctrl-C stops it, without a question
        "--ServerApp.log_level=WARN",
        "--LabApp.log_level=WARN",
    ]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # containers: Jupyter would refuse
    url = f"http://{HOST}:{chosen}{target}?token={token}"
    return Launch(tuple(command), _environment(root, settings, token), url)


def _environment(root: Path, settings: Path, token: str) -> dict[str, str]:
    """The token goes through the environment: a command line can be read by everybody."""
    return {
        **os.environ,
        "LAB_ROOT": str(root),
        "JUPYTER_TOKEN": token,
        "JUPYTER_CONFIG_DIR": str(settings),
        "JUPYTER_DATA_DIR": str(settings / "data"),
        "JUPYTER_RUNTIME_DIR": str(settings / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "IPYTHONDIR": str(settings / "ipython"),
    }


def _write_settings(settings: Path) -> None:
    """Without this, JupyterLab asks every new user whether it may fetch news."""
    path = settings / _NOTIFICATIONS
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}) + "\n", encoding="utf-8")


def _free_port(wanted: int | None) -> int:
    for candidate in (wanted,) if wanted is not None else (8888, 0):
        try:
            with socket.create_server((HOST, candidate)) as probe:
                port: int = probe.getsockname()[1]
                return port
        except OSError as error:
            if wanted is not None:
                raise CourseError(f"port {wanted} cannot be used: {error.strerror}") from error
    raise CourseError("no free port on 127.0.0.1")
