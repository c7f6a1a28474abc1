"""Answers that attack the grader itself: the report, the names in it, the processes and the folders."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from lab.course.grade import Grade, Settings, State, grade_folder, report
from lab.course.grade.rows import read_rows
from lab.course.verdict import Outcome, Verdict

WRONG = "def double(n):\n    return n * n"
RIGHT = "def double(n):\n    return n + n"
THREE = "LIMIT = 3"
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
STUBBORN = """
while True:
    try:
        while True:
            pass
    except KeyboardInterrupt:
        pass
"""
ROW = {
    "index": 4,
    "passed": True,
    "outputs": [],
    "message": "",
    "timed_out": False,
    "kernel_died": False,
    "ran": True,
}


def line(**changed: Any) -> bytes:
    return json.dumps({**ROW, **changed}).encode() + b"\n"


def grade_all(workbook: Any, timeout: float = 60.0) -> dict[str, Grade]:
    """File name → grade."""
    settings = Settings(timeout, jobs=min(4, os.cpu_count() or 1))
    grades = grade_folder(workbook.submissions, workbook.root, workbook.chapters, settings)
    return {grade.submission: grade for grade in grades}


def wait_until_gone(command: str) -> None:
    """Until no process's command line begins so; a killed one takes a moment to leave /proc."""
    deadline = time.monotonic() + 10
    while found := [path for path in Path("/proc").glob("[0-9]*/cmdline") if _begins(path, command)]:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def _begins(path: Path, command: str) -> bool:
    try:
        return path.read_bytes().startswith(command.encode())
    except OSError:
        return False


def test_rows_are_read_until_the_line_that_was_cut() -> None:
    assert read_rows(line() + line(index=5) + line(index=6)[:-9]) == {4: ROW, 5: {**ROW, "index": 5}}
    assert read_rows(b"") == {}


@pytest.mark.parametrize(
    "forged",
    [line(), line(passed=False), b"{}\n", b"[1]\n", b"\xff\n", b"\n", b"[" * 100_000 + b"\n", line(index="5"),
     line(index=5, outputs=[1])],
)  # fmt: skip
def test_a_report_with_a_line_that_is_not_ours_is_refused_whole(forged: bytes) -> None:
    assert read_rows(line() + forged) is None
    assert read_rows(forged + line()) is None


def test_a_second_row_for_a_cell_is_tampered(workbook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.course.grade.run.read_rows", lambda report: read_rows(report + line()))
    workbook.answer("a.ipynb", e1=WRONG)
    grade = grade_all(workbook)["a.ipynb"]
    assert (grade.state, grade.reason) == (State.TAMPERED, "an answer wrote to the grader's report")
    assert grade.exercises == ()


def test_an_answer_does_not_find_the_report(workbook: Any) -> None:
    look = (
        "import os, pathlib\n"
        "found = [name for name in os.environ if 'REPORT' in name]\n"
        "found += list(pathlib.Path.cwd().parent.rglob('*.jsonl'))\n"
        "for fd in pathlib.Path('/proc/self/fd').glob('*'):\n"
        "    found += [str(fd.readlink())] if fd.is_symlink() and 'jsonl' in str(fd.readlink()) else []\n"
        "LIMIT = found or 3"
    )
    workbook.answer("a.ipynb", e1=WRONG, e2=look)
    grade = grade_all(workbook)["a.ipynb"]
    assert [verdict.outcome for _, verdict in grade.exercises] == [Outcome.WRONG, Outcome.PASSED]


def test_odd_characters_of_a_student_stop_no_batch_and_break_no_table(workbook: Any, tmp_path: Path) -> None:
    def kernel(notebook: dict[str, Any]) -> None:
        notebook["metadata"]["kernelspec"]["name"] = "\ud800\x1b[31m\nrow" + "x" * 1000

    def tag(notebook: dict[str, Any]) -> None:
        workbook.cell(notebook, "99-1", "answer")["metadata"]["tags"] = ["nbval-\ud800\nrow"]

    workbook.answer("kernel.ipynb", kernel)
    workbook.answer("tag.ipynb", tag)
    grades = list(grade_all(workbook).values())
    assert [grade.state for grade in grades] == [State.NOT_ATTEMPTED, State.TAMPERED]
    assert grades[0].notes[0].startswith("kernel ??[31m row")
    assert len(grades[0].notes[0]) == 300
    assert grades[1].reason == "tag nbval-? row added: 99-1"
    assert len(report.as_table(grades).splitlines()) == 3
    report.write(grades, tmp_path / "grades")


def test_reasons_and_notes_are_made_printable_where_a_grade_is_made() -> None:
    verdict = Verdict(Outcome.WRONG, "a\nb", "\ud800")
    grade = Grade("a", "99", State.GRADED, "\x1b", (("99-1", verdict),), ("\u2028c",))
    assert (grade.reason, grade.notes) == ("?", ("c",))
    assert grade.exercises == (("99-1", Verdict(Outcome.WRONG, "a b", "?")),)


@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_F10_a_marker_after_any_end_of_line_is_tampered(workbook: Any, end: str) -> None:
    workbook.answer("a.ipynb", e1=f"{RIGHT}\n# a{end}## NBVAL_RAISES_EXCEPTION\n1 / 0")
    grade = grade_all(workbook)["a.ipynb"]
    assert (grade.state, grade.reason) == (State.TAMPERED, "marker NBVAL_RAISES_EXCEPTION added: 99-1")


ESCAPE = """
import subprocess, sys
null = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
subprocess.Popen(["sleep", "{seconds}"], env={{}}, start_new_session=True, **null)
"""


@needs_proc
def test_a_child_without_environment_in_its_own_session_does_not_outlive_the_run(
    workbook: Any, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    mark = 100_000 + os.getpid()
    workbook.answer("ended.ipynb", e1=RIGHT, e2=ESCAPE.format(seconds=f"{mark}.1") + THREE)
    workbook.answer("killed.ipynb", e1=ESCAPE.format(seconds=f"{mark}.2") + STUBBORN)
    grades = grade_all(workbook, timeout=8)
    assert (grades["ended.ipynb"].passed, grades["killed.ipynb"].state) == (2, State.TIMEOUT)
    wait_until_gone(f"sleep\0{mark}.")
    assert not list(short_folder.glob("lab-grade-*"))


def test_a_folder_that_cannot_be_removed_at_once_costs_no_grade(
    workbook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = tempfile.TemporaryDirectory.cleanup, []

    def busy(scratch: tempfile.TemporaryDirectory[str]) -> None:
        calls.append(scratch.name)
        if len(calls) < 3:
            raise OSError("busy")
        real(scratch)

    monkeypatch.setattr("tempfile.TemporaryDirectory.cleanup", busy)
    workbook.answer("a.ipynb", e1=RIGHT)
    assert grade_all(workbook)["a.ipynb"].passed == 1
    assert len(calls) == 3
    assert not Path(calls[0]).exists()


def test_what_is_no_notebook_is_invalid_and_not_our_error(workbook: Any) -> None:
    def no_metadata(notebook: dict[str, Any]) -> None:
        notebook["metadata"] = []

    def odd_id(notebook: dict[str, Any]) -> None:
        notebook["cells"][2]["id"] = ["x"]

    workbook.answer("metadata.ipynb", no_metadata)
    workbook.answer("id.ipynb", odd_id)
    workbook.answer("half.ipynb", e1=RIGHT + "  # \ud800")
    workbook.answer("UPPER.IPYNB")
    (workbook.submissions / "folder.ipynb").mkdir()
    (workbook.submissions / "link.ipynb").symlink_to("gone")
    os.mkfifo(workbook.submissions / "pipe.ipynb")
    grades = grade_all(workbook)
    assert grades.pop("UPPER.IPYNB").state is State.NOT_ATTEMPTED
    assert {name: (grade.state, grade.reason) for name, grade in grades.items()} == {
        "folder.ipynb": (State.INVALID, "not a file"),
        "half.ipynb": (State.INVALID, "a source holds half a character, which no file can"),
        "id.ipynb": (State.INVALID, "a cell lacks its type, source or metadata, or its id is not text"),
        "link.ipynb": (State.INVALID, "not a file"),
        "metadata.ipynb": (State.INVALID, "the notebook's metadata is not an object"),
        "pipe.ipynb": (State.INVALID, "not a file"),
    }


def test_an_answer_that_ends_nbval_is_not_our_error(workbook: Any) -> None:
    workbook.answer("kill.ipynb", e1=f"{RIGHT}\nimport os\nos.kill(os.getppid(), 9)", e2=THREE)
    workbook.answer("term.ipynb", e1=RIGHT, e2="import os\nos.kill(os.getppid(), 15)\nLIMIT = 3")
    grades = grade_all(workbook)
    assert {(name, grade.state, grade.reason) for name, grade in grades.items()} == {
        ("kill.ipynb", State.KERNEL_DIED, "nbval was ended by SIGKILL in the answer cell of 99-1"),
        ("term.ipynb", State.KERNEL_DIED, "nbval was ended by SIGTERM in the answer cell of 99-2"),
    }


def test_a_check_that_takes_too_long_is_an_exception(workbook: Any) -> None:
    workbook.answer("a.ipynb", e1="def double(n):\n    while True:\n        pass", e2=THREE)
    workbook.answer("b.ipynb", e1="import os\ndef double(n):\n    os._exit(0)", e2=THREE)
    grades = grade_all(workbook, timeout=8)
    assert (grades["a.ipynb"].state, grades["a.ipynb"].passed) == (State.TIMEOUT, 1)
    assert grades["a.ipynb"].exercises[0][1] == Verdict(Outcome.EXCEPTION, "took too long")
    assert grades["b.ipynb"].state is State.KERNEL_DIED
    assert grades["b.ipynb"].exercises[0][1] == Verdict(Outcome.EXCEPTION, "the kernel died")


def test_an_attempt_that_raises_as_the_stub_does_is_an_exception(workbook: Any) -> None:
    workbook.answer(
        "a.ipynb", e1="def double(n):\n    if n:\n        raise NotImplementedError\n    return 0"
    )
    verdicts = [verdict for _, verdict in grade_all(workbook)["a.ipynb"].exercises]
    assert verdicts[0].outcome is Outcome.EXCEPTION
    assert verdicts[0].reason.startswith("NotImplementedError: ")
    assert verdicts[1] == Verdict(Outcome.NOT_ATTEMPTED)


@pytest.mark.parametrize("word", ["exit()", "quit()"])
def test_exit_is_the_fault_of_its_own_exercise(workbook: Any, word: str) -> None:
    workbook.answer("a.ipynb", e1=f"{RIGHT}\n{word}", e2=THREE)
    grade = grade_all(workbook)["a.ipynb"]
    assert (grade.state, grade.passed) == (State.GRADED, 1)
    assert grade.exercises[0][1] == Verdict(Outcome.EXCEPTION, "NotebookStopped: exit() stops the notebook")


@pytest.mark.parametrize(
    "spoil",
    ["import sys\nsys.stdout = None", "import sys\nsys.stderr = sys.stdout = None",
     "import builtins\nbuiltins.print = None", "print = None",
     "import sys\nsys.stdout.close()\nsys.stderr.close()"],
)  # fmt: skip
def test_an_answer_that_silences_the_notebook_costs_the_others_nothing(workbook: Any, spoil: str) -> None:
    workbook.answer("a.ipynb", e1=f"{RIGHT}\n{spoil}", e2=THREE)
    grade = grade_all(workbook)["a.ipynb"]
    assert (grade.state, grade.passed) == (State.GRADED, 2)


def test_an_interrupt_that_an_answer_raises_is_its_exception(workbook: Any) -> None:
    workbook.answer(
        "a.ipynb", e1="def double(n):\n    raise KeyboardInterrupt('me')", e2="raise KeyboardInterrupt"
    )
    verdicts = [verdict for _, verdict in grade_all(workbook)["a.ipynb"].exercises]
    assert verdicts == [
        Verdict(Outcome.EXCEPTION, "KeyboardInterrupt: me"),
        Verdict(Outcome.EXCEPTION, "KeyboardInterrupt:"),
    ]


@needs_proc
def test_a_lost_fork_server_is_named(workbook: Any) -> None:
    kill = (
        "import os, pathlib\n"
        "stat = pathlib.Path(f'/proc/{os.getppid()}/stat').read_text()\n"
        "os.kill(int(stat.rpartition(')')[2].split()[1]), 9)\n"
        "import time\ntime.sleep(30)"
    )
    workbook.answer("a.ipynb", e1=kill)
    grade = grade_all(workbook)["a.ipynb"]
    assert grade.state is State.ENV_ERROR
    assert grade.reason == "the fork server ended during this run: grade again"
    (workbook.submissions / "a.ipynb").unlink()
    workbook.answer("b.ipynb", e1=RIGHT)
    assert grade_all(workbook)["b.ipynb"].passed == 1
