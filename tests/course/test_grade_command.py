"""lab grade as a command: clear errors, equal files for equal input, and one end per submission."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.cli.grade import _table, command
from lab.cli.notebooks import command as notebooks
from lab.course.errors import CourseError
from lab.course.grade import Chapter, Grade, Settings, State, grade_folder, report
from lab.course.grade.assemble import assemble
from lab.course.grade.run import Ran
from lab.course.grade.states import Ledger
from lab.course.grade.submission import Answers
from lab.course.grade.verdict import judge
from lab.course.notebook import exercise_of, source
from lab.course.proc import carriers
from lab.course.verdict import Outcome


def test_grading_again_changes_nothing(workbook: Any, tmp_path: Path) -> None:
    workbook.answer("a/one.ipynb", e1="def double(n):\n    return n + n", e2="LIMIT = 3")
    workbook.answer("b/one.ipynb")
    out = tmp_path / "reports" / "grades"
    arguments = [str(workbook.submissions), "--out", str(out), "--jobs", "2"]
    first = CliRunner().invoke(command, arguments)
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert lines[0].split() == list(report.COLUMNS[:-1])
    assert [line.split()[:4] for line in lines[1:]] == [
        ["a/one.ipynb", "99", "GRADED", "2"],
        ["b/one.ipynb", "99", "NOT_ATTEMPTED", "0"],
    ]
    files = {path.name: path.read_bytes() for path in out.parent.iterdir()}
    assert sorted(files) == ["grades.csv", "grades.json"]
    assert CliRunner().invoke(command, arguments).exit_code == 0
    assert {path.name: path.read_bytes() for path in out.parent.iterdir()} == files
    rows = json.loads(files["grades.json"])
    assert rows[0]["exercises"]["99-1"] == {"outcome": "passed", "reason": "", "counterexample": None}
    assert not list(workbook.submissions.rglob("*.csv"))


def test_json_goes_to_stdout_alone(workbook: Any) -> None:
    workbook.answer("empty.ipynb")
    done = CliRunner().invoke(command, [str(workbook.submissions), "--json"])
    assert [row["state"] for row in json.loads(done.stdout)] == ["NOT_ATTEMPTED"]


def test_bad_input_is_one_clear_line(workbook: Any, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    done = CliRunner().invoke(command, [str(tmp_path / "nothing")])
    assert (done.exit_code, done.output) == (1, f"Error: no notebooks in {tmp_path / 'nothing'}\n")
    workbook.answer("empty.ipynb")
    done = CliRunner().invoke(command, [str(workbook.submissions), "--chapter", "12"])
    assert (done.exit_code, done.output) == (1, "Error: no chapter '12' with exercises; there are 99\n")
    assert CliRunner().invoke(command, [str(tmp_path / "gone")]).exit_code == 2
    assert CliRunner().invoke(command, [str(workbook.submissions), "--timeout", "0"]).exit_code == 2


def test_a_submission_for_another_chapter_is_invalid(workbook: Any) -> None:
    workbook.answer("one.ipynb", lambda notebook: notebook["metadata"].update(lab={"chapter": "42"}))
    settings = Settings(timeout=10)
    (grade,) = grade_folder(workbook.submissions, workbook.root, workbook.chapters, settings)
    assert (grade.state, grade.reason) == (State.INVALID, "there is no chapter '42' with exercises")
    (grade,) = grade_folder(workbook.submissions, workbook.root, workbook.chapters, Settings(10, only="99"))
    assert (grade.state, grade.reason) == (State.INVALID, "answers chapter 42, not 99")


def test_exercises_of_two_chapters_are_invalid(workbook: Any) -> None:
    def edit(notebook: dict[str, Any]) -> None:
        notebook["metadata"] = {}
        workbook.cell(notebook, "99-2", "answer")["metadata"]["lab"]["exercise"] = "98-2"

    workbook.answer("one.ipynb", edit)
    (grade,) = grade_folder(workbook.submissions, workbook.root, workbook.chapters, Settings(10))
    assert grade.reason == "the notebook's metadata names exercises of 2 chapters"


def test_a_fault_of_ours_costs_one_line_and_not_the_batch(
    workbook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Ran:
        raise RuntimeError("disk full")

    monkeypatch.setattr("lab.course.grade.batch.run", broken)
    workbook.answer("a.ipynb", e2="LIMIT = 3")
    workbook.answer("b.ipynb")
    grades = grade_folder(workbook.submissions, workbook.root, workbook.chapters, Settings(10))
    assert [(grade.state, grade.reason) for grade in grades] == [
        (State.ENV_ERROR, "RuntimeError: disk full"),
        (State.NOT_ATTEMPTED, "every answer is the stub"),
    ]


def test_another_lab_in_the_way_is_our_error_and_no_zero(workbook: Any) -> None:
    def edit(chapter: Chapter) -> Chapter:
        notebook = json.loads(json.dumps(chapter.notebook))
        notebook["cells"][1]["source"] = "raise ImportError('no module named torch')"
        return Chapter(chapter.name, notebook, chapter.exercises)

    workbook.answer("a.ipynb", e2="LIMIT = 3")
    chapters = {"99": edit(workbook.chapters["99"])}
    (grade,) = grade_folder(workbook.submissions, workbook.root, chapters, Settings(20))
    assert (grade.state, grade.reason) == (State.ENV_ERROR, "ImportError: no module named torch")
    assert "another package called lab" in source(
        assemble(chapters["99"].notebook, _answers(workbook)).notebook["cells"][0]
    )


def test_an_end_is_settled_once() -> None:
    ledger = Ledger(["a"])
    ledger.settle(Grade("a", "99", State.GRADED))
    with pytest.raises(CourseError, match="has its grade already"):
        ledger.settle(Grade("a", "99", State.TIMEOUT))
    with pytest.raises(CourseError, match="unknown"):
        ledger.settle(Grade("b", "99", State.TIMEOUT))
    assert [grade.state for grade in ledger.grades()] == [State.GRADED]


def _answers(workbook: Any, **changed: str) -> dict[str, str]:
    return {exercise.id: exercise.stub for exercise in workbook.chapters["99"].exercises} | changed


def test_the_assembled_notebook_holds_our_cells_and_the_answers_as_written(workbook: Any) -> None:
    pristine = json.loads(json.dumps(workbook.notebook))
    for position, tags in ((3, ["lab-keep"]), (5, [])):
        cell = {"cell_type": "code", "id": f"x{position}", "metadata": {"tags": tags}, "outputs": []}
        pristine["cells"].insert(position, {**cell, "execution_count": 1, "source": f"slow({position})"})
    built = assemble(pristine, _answers(workbook, **{"99-1": "%%time\nanswer"}))
    roles = [(slot.role, slot.exercise) for slot in built.slots]
    assert roles == [
        ("guard", None),
        ("ours", None),
        ("ours", None),
        ("answer", "99-1"),
        ("check", "99-1"),
        ("answer", "99-2"),
        ("check", "99-2"),
    ]
    sources = [source(cell) for cell in built.notebook["cells"]]
    assert sources[2] == "slow(3)"
    assert sources[3] == "%%time\nanswer"
    assert built.notebook["cells"][4]["outputs"][0]["text"] == "99-1 passed\n"
    assert not any(exercise_of(cell) for cell in built.notebook["cells"])


def _row(index: int, **values: Any) -> dict[str, Any]:
    base = {"index": index, "passed": True, "outputs": [], "message": ""}
    return {**base, "timed_out": False, "kernel_died": False, "ran": True, **values}


def _judged(workbook: Any, rows: list[dict[str, Any]], *, killed: bool = False, log: str = "") -> Grade:
    answers = _answers(workbook, **{"99-1": "def double(n): return 2 * n"})
    slots = assemble(workbook.notebook, answers).slots
    ran = Ran({row["index"]: row for row in rows}, killed, log)
    return judge("a", "99", workbook.chapters["99"].exercises, Answers(answers, ()), slots, ran)


def _said(index: int, text: str, **values: Any) -> dict[str, Any]:
    return _row(index, outputs=[{"output_type": "stream", "name": "stdout", "text": text}], **values)


def test_a_killed_run_is_a_timeout_in_the_first_cell_that_is_missing(workbook: Any) -> None:
    grade = _judged(workbook, [_row(0), _row(1)], killed=True)
    assert (grade.state, grade.reason) == (State.TIMEOUT, "in the answer cell of 99-1")
    assert grade.exercises[0][1].line("99-1") == "99-1 unknown: not run"


def test_a_run_that_ended_early_by_itself_is_our_error(workbook: Any) -> None:
    grade = _judged(workbook, [], log="INTERNALERROR> no space left\n\n")
    assert (grade.state, grade.reason) == (State.ENV_ERROR, "INTERNALERROR> no space left")
    assert _judged(workbook, []).reason == "nbval said nothing"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (_said(3, "99-1 passed\n"), "99-1 passed"),
        (_said(3, "99-1 wrong: no; smallest counterexample: n = 1\n", passed=False),
         "99-1 wrong: no; smallest counterexample: n = 1"),
        (_said(3, "99-1 passed\n", passed=False), "99-1 unknown: nbval and the check disagree"),
        (_said(3, "99-1 wrong: no\n"), "99-1 unknown: nbval and the check disagree"),
        (_said(3, "99-1 passed\n99-1 passed\n"), "99-1 unknown: the check printed something else"),
        (_row(3), "99-1 unknown: the check printed something else"),
    ],
)  # fmt: skip
def test_nbval_and_the_check_must_agree(workbook: Any, row: dict[str, Any], expected: str) -> None:
    rest = [_said(5, "99-2 not attempted\n", passed=False)]
    grade = _judged(workbook, [_row(0), _row(1), _row(2), row, _row(4), *rest])
    assert grade.state is State.GRADED
    assert grade.exercises[0][1].line("99-1").startswith(expected)
    assert grade.exercises[1][1].outcome is Outcome.NOT_ATTEMPTED


def test_a_spreadsheet_sees_no_formula() -> None:
    grade = Grade("=1+1.ipynb", None, State.INVALID, "-x")
    assert report.as_csv([grade]).splitlines()[1] == "'=1+1.ipynb,,INVALID,0,0,'-x,"


def test_F25_a_name_that_the_terminal_cannot_show_stops_nothing(workbook: Any, tmp_path: Path) -> None:
    workbook.answer("Ω 日本.ipynb", lambda notebook: notebook["metadata"].update(lab={"chapter": "42"}))
    workbook.answer(
        "bad\udcff\x1b.ipynb", lambda notebook: notebook["metadata"].update(lab={"chapter": "42"})
    )
    values = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", "LC_ALL": "C.UTF-8"}
    command_line = [
        sys.executable,
        "-m",
        "lab",
        "grade",
        str(workbook.submissions),
        "--out",
        str(tmp_path / "g"),
    ]
    done = subprocess.run(command_line, env=values, capture_output=True, check=True)
    assert b"INVALID" in done.stdout
    assert b"\\u03a9" in done.stdout
    rows = json.loads((tmp_path / "g.json").read_text(encoding="utf-8"))
    assert [row["submission"] for row in rows] == ["bad??.ipynb", "Ω 日本.ipynb"]


def test_a_table_on_a_terminal_takes_no_markup_from_students() -> None:
    grade = Grade("[bold]x[/bold].ipynb", None, State.INVALID, "no")
    assert "[bold]x[/bold]" in _table([grade], terminal=True)


def test_an_interrupt_ends_what_runs_and_starts_nothing_more(workbook: Any) -> None:
    for name in "abcd":
        workbook.answer(f"{name}.ipynb", e1="while True:\n    pass")
    (workbook.submissions / "0.ipynb").write_text("{", encoding="utf-8")

    def interrupt(grade: Grade) -> None:
        assert grade.submission == "0.ipynb"
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        grade_folder(workbook.submissions, workbook.root, workbook.chapters, Settings(600, jobs=2), interrupt)
    assert time.monotonic() - began < 100  # and not the 300 s that one cell may take


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to handle")
def test_a_terminated_batch_leaves_no_process_and_no_folder(
    workbook: Any, tmp_path: Path, short_folder: Path
) -> None:
    begun, scratch = tmp_path / "begun", short_folder
    endless = f"open({str(begun)!r}, 'w').close()\nwhile True:\n    pass"
    workbook.answer("a.ipynb", e1=endless)
    mark = secrets.token_hex(8)
    exercises = source(workbook.notebook["cells"][1]).partition("from lab.course import")[0]
    batch = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{exercises}\nfrom lab.cli.grade import command\ncommand()",
            str(workbook.submissions),
        ],
        env={**os.environ, "TMPDIR": str(scratch), "BATCH_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not begun.exists():
        assert batch.poll() is None, batch.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    batch.terminate()
    _, said = batch.communicate(timeout=60)
    assert batch.returncode == 1
    assert said.decode().strip() == "Aborted!"
    while carriers("BATCH_MARK", mark):  # the fork server notices by itself that its parent is gone
        assert time.monotonic() < deadline + 60
        time.sleep(0.05)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("timeout", ["nan", "inf", "-inf", "1e999", "0", "x"])
def test_a_timeout_is_a_finite_number(workbook: Any, timeout: str) -> None:
    chapter = str(workbook.root / "chapters" / "99_tiny.ipynb")
    for target, arguments in (
        (command, [str(workbook.submissions.parent)]),
        (notebooks, ["refresh", chapter]),
        (notebooks, ["test", chapter]),
    ):
        done = CliRunner().invoke(target, [*arguments, "--timeout", timeout])
        assert done.exit_code == 2
        assert "Invalid value for '--timeout'" in done.output


def test_a_report_that_cannot_be_written_is_said_before_the_batch(
    workbook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> list[Grade]:
        raise AssertionError("the batch ran")

    monkeypatch.setattr("lab.cli.grade.grade_folder", never)
    (tmp_path / "file").write_text("")
    (tmp_path / "taken.csv").mkdir()
    for out, said in (
        ("", "--out must name a file, without its ending"),
        (".", "--out must name a file, without its ending"),
        (str(tmp_path / "file" / "grades"), f"cannot write in {tmp_path / 'file'}: "),
        ("/proc/nowhere/grades", "cannot write in /proc/nowhere: "),
        (str(tmp_path / "taken"), f"cannot write {tmp_path / 'taken.csv'}: it is a folder"),
    ):
        done = CliRunner().invoke(command, [str(tmp_path), "--out", out])
        assert (done.exit_code, len(done.output.splitlines())) == (1, 1), done.output
        assert done.output.startswith(f"Error: {said}")
