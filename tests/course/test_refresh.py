"""lab notebooks refresh: runs a chapter and stores it in one form, or leaves it exactly as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.cli.notebooks import command
from lab.course.kernel import environment
from lab.course.normalise import normalise
from lab.course.notebook import dumps, read
from lab.course.refresh import ChapterFailed, refresh

LEAKS = """\
import asyncio, socket, subprocess, threading
task = asyncio.create_task(asyncio.sleep(600))
threading.Thread(target=threading.Event().wait, name="reader", daemon=True).start()
child = subprocess.Popen(["sleep", "600"])
server = socket.create_server(("127.0.0.1", 0))"""


@pytest.fixture
def chapter(workbook: Any) -> Path:
    return workbook.root / "chapters" / "99_tiny.ipynb"


def rewrite(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    notebook = read(path)
    edit(notebook)
    path.write_text(dumps(notebook), encoding="utf-8")


def add_cell(source: str, number: int = 2) -> Callable[[dict[str, Any]], object]:
    cell = {"cell_type": "code", "id": "new", "metadata": {}, "outputs": [], "execution_count": None}
    return lambda notebook: notebook["cells"].insert(number, {**cell, "source": source})


def test_refreshing_an_unchanged_chapter_changes_nothing(workbook: Any, chapter: Path) -> None:
    before = chapter.read_bytes()
    seen: list[tuple[int, int, str]] = []
    assert refresh(chapter, workbook.root, progress=lambda *step: seen.append(step)) is False
    assert chapter.read_bytes() == before
    assert [step[:2] for step in seen] == [(n, 6) for n in range(1, 7)]
    assert seen[2][2] == 'check("99-1")'


def test_new_output_is_stored_and_what_varies_is_not(workbook: Any, chapter: Path) -> None:
    text = (
        "import sys, os\nimport ipywidgets as widgets\n"
        "print('a'); print('warning', file=sys.stderr); print(os.environ.get('PYTHONOPTIMIZE'))\n"
        "display(widgets.IntSlider())\nobject()"
    )

    def edit(notebook: dict[str, Any]) -> None:
        add_cell(text)(notebook)
        notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
        notebook["metadata"]["colab"] = {"name": "x"}
        notebook["cells"][2]["metadata"] = {"scrolled": True, "tags": []}

    rewrite(chapter, edit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONOPTIMIZE", "1")
        assert refresh(chapter, workbook.root) is True
        assert os.environ["PYTHONOPTIMIZE"] == "1"  # put back after the run
    fresh = read(chapter)
    cell = fresh["cells"][2]
    assert cell["metadata"] == {"tags": []}
    assert set(fresh["metadata"]) == {"kernelspec", "language_info", "lab"}
    assert [output["output_type"] for output in cell["outputs"]] == ["stream", "stream", "execute_result"]
    assert cell["outputs"][0]["text"] == ["a\n", "None\n"]
    assert cell["outputs"][2]["data"] == {"text/plain": ["<object at 0x...>"]}
    assert [cell["execution_count"] for cell in fresh["cells"][1:]] == [1, 2, 3, 4, 5, 6, 7]
    assert refresh(chapter, workbook.root) is False


@pytest.mark.parametrize(
    ("source", "timeout", "message"),
    [
        ("1 / 0", 60, "cell 3 raised ZeroDivisionError: division by zero"),
        ("import os\nos._exit(1)", 60, "cell 3 killed the kernel"),
        ("while True:\n    pass", 1, "cell 3 took longer than 1 s"),
        (LEAKS, 60, "cell 8 raised LeakError: left behind: task sleep; thread reader; process sleep; listening port "),
    ],
)  # fmt: skip
def test_a_chapter_that_does_not_run_is_left_as_it_was(
    workbook: Any, chapter: Path, source: str, timeout: float, message: str
) -> None:
    rewrite(chapter, add_cell(source))
    before = chapter.read_bytes()
    with pytest.raises(ChapterFailed) as failure:
        refresh(chapter, workbook.root, timeout=timeout)
    assert str(failure.value).startswith(message)
    assert chapter.read_bytes() == before
    assert [path.name for path in chapter.parent.iterdir()] == [chapter.name]


def test_the_command_names_the_chapter_that_failed(workbook: Any, chapter: Path) -> None:
    rewrite(chapter, lambda notebook: notebook["cells"][1].update(source="raise ValueError('no')"))
    done = CliRunner().invoke(command, ["refresh", str(chapter)])
    assert done.exit_code == 1
    assert done.output == f"Error: {chapter}: cell 2 raised ValueError: no\n"


def test_normalising_twice_is_normalising_once(chapter: Path) -> None:
    once = normalise(read(chapter), "99")
    assert dumps(normalise(once, "99")) == dumps(once)
    assert json.loads(dumps(once)) == once


def test_cheap_nothing_that_changes_a_run_reaches_the_kernel(tmp_path: Path) -> None:
    hostile = {"PYTHONOPTIMIZE": "1", "PYTHONPATH": "x", "PYTEST_ADDOPTS": "-k none", "PATH": "/bin"}
    values = environment(tmp_path / "root", tmp_path, hostile)
    assert values["PATH"] == "/bin"
    assert not {"PYTHONOPTIMIZE", "PYTHONPATH", "PYTEST_ADDOPTS"} & set(values)
    assert values["LAB_ROOT"] == str(tmp_path / "root")
    assert values["IPYTHONDIR"].startswith(str(tmp_path))
