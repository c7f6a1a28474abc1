"""lab start and lab notebook: a working copy that never loses an answer."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from lab.cli.notebook import command as notebook_command
from lab.cli.start import command as start
from lab.course.errors import CourseError, RootNotFound
from lab.course.jupyter import plan
from lab.course.root import chapter_paths, workbook_root
from lab.course.working import Step, default_folder, find_chapter, top_up


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def steps(workbook: Any, work: Path) -> dict[str, Step]:
    return {copied.path.name: copied.step for copied in top_up(workbook.root, work)}


def test_a_first_copy_then_a_top_up(workbook: Any, work: Path) -> None:
    assert steps(workbook, work) == {"99_tiny.ipynb": Step.COPIED}
    (workbook.root / "chapters" / "98_new.ipynb").write_text("{}", encoding="utf-8")
    assert steps(workbook, work) == {"98_new.ipynb": Step.COPIED, "99_tiny.ipynb": Step.KEPT}


def test_an_answer_is_never_overwritten(workbook: Any, work: Path) -> None:
    top_up(workbook.root, work)
    mine = work / "99_tiny.ipynb"
    mine.write_text("my answer", encoding="utf-8")
    assert steps(workbook, work) == {"99_tiny.ipynb": Step.KEPT}
    (workbook.root / "chapters" / "99_tiny.ipynb").write_text("second edition", encoding="utf-8")
    assert steps(workbook, work) == {"99_tiny.ipynb": Step.OUTDATED}
    assert mine.read_text(encoding="utf-8") == "my answer"


def test_an_untouched_copy_is_renewed(workbook: Any, work: Path) -> None:
    top_up(workbook.root, work)
    (workbook.root / "chapters" / "99_tiny.ipynb").write_text("second edition", encoding="utf-8")
    assert steps(workbook, work) == {"99_tiny.ipynb": Step.RENEWED}
    assert (work / "99_tiny.ipynb").read_text(encoding="utf-8") == "second edition"
    assert steps(workbook, work) == {"99_tiny.ipynb": Step.KEPT}


@pytest.mark.parametrize("record", ["", "[]", '{"editions": 3}'])
def test_without_a_record_every_copy_counts_as_edited(workbook: Any, work: Path, record: str) -> None:
    top_up(workbook.root, work)
    (work / ".lab.json").write_text(record, encoding="utf-8")
    (workbook.root / "chapters" / "99_tiny.ipynb").write_text("second edition", encoding="utf-8")
    assert steps(workbook, work) == {"99_tiny.ipynb": Step.OUTDATED}


def test_the_chapters_themselves_are_no_working_copy(workbook: Any) -> None:
    with pytest.raises(CourseError, match="cannot be the chapters folder itself"):
        top_up(workbook.root, workbook.root / "chapters")


def test_a_folder_that_cannot_be_written_is_one_clear_line(workbook: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = CliRunner().invoke(start, [str(tmp_path / "file" / "work")])
    assert done.exit_code == 1
    assert done.output.startswith("Error: cannot write the working copy in ")


def test_the_command_says_where_the_copy_is(workbook: Any, work: Path) -> None:
    done = CliRunner().invoke(start, [str(work)])
    assert done.output == f"99_tiny.ipynb: copied\nYour working copy: {work}\n"


def test_a_chapter_is_found_by_number_or_name(workbook: Any, work: Path) -> None:
    top_up(workbook.root, work)
    (work / "07_tiny_lm.ipynb").write_text("{}", encoding="utf-8")
    for wanted in ("7", "07", "tiny_lm"):
        assert find_chapter(work, wanted).name == "07_tiny_lm.ipynb"
    with pytest.raises(CourseError, match="2 chapters for 'tiny'"):
        find_chapter(work, "tiny")
    with pytest.raises(
        CourseError, match=r"no chapter for '12'; there are 07_tiny_lm\.ipynb, 99_tiny\.ipynb"
    ):
        find_chapter(work, "12")


def test_the_root_is_the_named_one_or_the_checkout(monkeypatch: pytest.MonkeyPatch, workbook: Any) -> None:
    assert workbook_root() == workbook.root
    monkeypatch.setenv("LAB_ROOT", "/nowhere")
    with pytest.raises(RootNotFound, match="LAB_ROOT=/nowhere holds no chapters"):
        workbook_root()
    monkeypatch.delenv("LAB_ROOT")
    checkout = Path(__file__).resolve().parents[2]
    for folder in (checkout, checkout / "tests", Path("/")):
        monkeypatch.chdir(folder)
        assert workbook_root() == checkout
    assert default_folder(checkout) == checkout / "work"
    monkeypatch.chdir(workbook.root)
    assert default_folder(workbook.root) == workbook.root / "work"  # installed: in the current folder


def test_an_installed_workbook_lies_in_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "lab"
    for name in ("chapters", "evidence"):
        (package / "workbook" / name).mkdir(parents=True)
    monkeypatch.delenv("LAB_ROOT", raising=False)
    monkeypatch.setattr("lab.evidence.root.PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    assert workbook_root() == package / "workbook"


def test_every_chapter_has_its_own_number() -> None:
    numbers = [path.name[:2] for path in chapter_paths(Path(__file__).resolve().parents[2])]
    assert len(set(numbers)) == len(numbers)


def test_a_taken_port_is_one_clear_line(workbook: Any, work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = CliRunner().invoke(notebook_command, ["99", "--folder", str(work), "--port", str(port)])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: port {port} cannot be used: ")


def test_the_token_is_not_on_the_command_line_and_settings_are_the_copys_own(
    workbook: Any, work: Path
) -> None:
    top_up(workbook.root, work)
    launch = plan(workbook.root, work / "99_tiny.ipynb", port=None, browser=False)
    token = launch.environment["JUPYTER_TOKEN"]
    assert launch.url.endswith(f"/lab/tree/99_tiny.ipynb?token={token}")
    assert not any(token in argument for argument in launch.command)
    assert "--no-browser" in launch.command
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        assert Path(launch.environment[name]).is_relative_to(work)
    again = plan(workbook.root, work / "99_tiny.ipynb", port=None, browser=True)
    assert again.environment["JUPYTER_TOKEN"] != token
    assert "--no-browser" not in again.command


def test_jupyterlab_answers_under_the_printed_url_with_our_kernel(workbook: Any, work: Path) -> None:
    command = [sys.executable, "-m", "lab", "notebook", "99", "--folder", str(work), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            url = urlsplit(server.stdout.readline().strip())
            assert url.path == "/lab/tree/99_tiny.ipynb"
            assert _get(server, url.netloc, f"{url.path}?{url.query}").status == 200
            specs = json.loads(_get(server, url.netloc, f"/api/kernelspecs?{url.query}").read())
            assert "python3" in specs["kernelspecs"]
            assert _get(server, url.netloc, "/api/contents").status == 403  # without the token
        finally:
            server.send_signal(signal.SIGTERM)
    assert not list((work / ".jupyter" / "runtime").glob("jpserver-*.json"))


def _get(server: subprocess.Popen[str], host: str, path: str) -> http.client.HTTPResponse:
    """GET, as soon as the server listens."""
    deadline = time.monotonic() + 60
    while True:
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            return connection.getresponse()
        except ConnectionRefusedError:
            connection.close()
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            os.sched_yield()
            time.sleep(0.05)
