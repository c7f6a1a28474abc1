"""Public faults of notebook graders, replayed: one folder with one submission for each, graded once."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.course.grade import Grade, Settings, State, grade_folder, report
from lab.course.proc import carriers
from lab.course.verdict import Outcome

RIGHT = "def double(n):\n    return n + n"
WRONG = "def double(n):\n    return n * n"
THREE = "LIMIT = 3"
TIMEOUT = 12.0  # seconds; an endless cell costs half of it

STUBBORN = """\
while True:
    try:
        while True:
            pass
    except KeyboardInterrupt:
        pass"""
ESCAPES = """\
import os, subprocess
subprocess.Popen(["sleep", "600"], start_new_session=True, env={**os.environ, "F_MARK": "f-escape"})
LIMIT = 3"""


def to_markdown(exercise: str, role: str) -> Any:
    def edit(notebook: dict[str, Any]) -> None:
        cell = _cell(notebook, exercise, role)
        cell["cell_type"] = "markdown"
        for key in ("outputs", "execution_count"):
            del cell[key]

    return edit


def add_tag(tag: str) -> Any:
    return lambda notebook: _cell(notebook, "99-1", "check")["metadata"].update(tags=[tag])


def drop_check(notebook: dict[str, Any]) -> None:
    notebook["cells"].remove(_cell(notebook, "99-1", "check"))


def clear_outputs(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)


def copy_answer(notebook: dict[str, Any]) -> None:
    cell = _cell(notebook, "99-1", "answer")
    notebook["cells"].append({**cell, "id": "copy", "source": RIGHT})


def foreign_kernel(notebook: dict[str, Any]) -> None:
    notebook["metadata"]["kernelspec"] = {"name": "conda-env-foo-py", "display_name": "foo"}


def lose_metadata(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def _cell(notebook: dict[str, Any], exercise: str, role: str) -> dict[str, Any]:
    mark = {"exercise": exercise, "role": role}
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("lab") == mark)


def write_all(workbook: Any) -> None:
    """One submission per fault, named after it."""
    answer = workbook.answer
    answer("right.ipynb", e1=RIGHT, e2=THREE)
    answer("wrong.ipynb", e1=WRONG, e2=THREE)
    answer("empty.ipynb")
    answer("F01.ipynb", add_tag("raises-exception"), e1=WRONG)
    answer("F02.ipynb", e1="%notmagic\n" + RIGHT, e2=THREE)
    answer("F04.ipynb", to_markdown("99-1", "check"), e1=WRONG)
    answer("F04b.ipynb", to_markdown("99-1", "answer"), e2=THREE)
    answer("F05.ipynb", copy_answer, e1=WRONG, e2=THREE)
    answer("F07.ipynb", drop_check, e1=WRONG, e2=THREE)
    answer("F08.ipynb", clear_outputs, e1=WRONG, e2=THREE)
    answer("F10.ipynb", e1="# NBVAL_SKIP\n" + WRONG)
    answer("F10b.ipynb", add_tag("nbval-skip"), e1=WRONG)
    answer("F10c.ipynb", e1='TEXT = """\n  # NBVAL_SKIP\n"""\n' + RIGHT)
    answer("F11.ipynb", e1="def double(n):\n    return int(input())", e2="LIMIT = input()")
    answer("F13.ipynb", e1=RIGHT, e2="import os\nos._exit(0)")
    answer("F13b.ipynb", e1="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", e2=THREE)
    answer("F14.ipynb", foreign_kernel, e1=RIGHT, e2=THREE)
    answer("F16.ipynb", e1=f"import warnings\nwarnings.warn('old', DeprecationWarning)\n{RIGHT}", e2=THREE)
    answer("F17.ipynb", e1=f"{WRONG}\n100", e2=f"{THREE}\n0")
    answer("F20.ipynb", e1=f"check = leak_check = lab = t = result = exercise = 5\n{RIGHT}", e2=THREE)
    answer("F25.ipynb", e1=f"# Ω 日本語 “quoted” 🙂\n{RIGHT}", e2="π = 3\nLIMIT = π")
    answer("weiß ich nicht/F26 (copy 2).ipynb", e1=RIGHT, e2=THREE)
    answer("weiß ich nicht/F26 (copy 3).ipynb", lose_metadata, e1=RIGHT, e2=THREE)
    answer("F29.ipynb", e1=f"%%time\n{RIGHT}", e2=THREE)
    answer("endless.ipynb", e1="while True:\n    pass", e2=THREE)
    answer("stubborn.ipynb", e1=STUBBORN, e2=THREE)
    answer("flood.ipynb", e1=f"for n in range(200):\n    print('x' * 1000)\n{RIGHT}", e2=THREE)
    answer("escapes.ipynb", e1="def double(n):\n    raise ValueError('\\x1b[31m[bold]\\ud800')", e2=THREE)
    answer("syntax.ipynb", e1="def double(n:", e2=THREE)
    answer("escape.ipynb", e1=RIGHT, e2=ESCAPES)
    (workbook.submissions / "broken.ipynb").write_text('{"cells": [', encoding="utf-8")
    (workbook.submissions / "other.ipynb").write_text(
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}', encoding="utf-8"
    )
    (workbook.submissions / ".ipynb_checkpoints").mkdir()
    (workbook.submissions / ".ipynb_checkpoints" / "right-checkpoint.ipynb").write_text("{", encoding="utf-8")
    # what must not be read: settings and packages beside the notebooks
    hostile = "raise SystemExit('read from the submissions folder')"
    for name in ("conftest.py", "lab.py", "sitecustomize.py", "pytest.ini"):
        (workbook.submissions / name).write_text(hostile, encoding="utf-8")


@pytest.fixture(scope="module")
def module_patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def graded(
    tmp_path_factory: pytest.TempPathFactory, module_patch: pytest.MonkeyPatch, make_workbook: Any
) -> dict[str, Grade]:
    """File name → grade. The environment holds what must not reach a kernel."""
    module_patch.setenv("PYTHONOPTIMIZE", "1")
    module_patch.setenv("PYTHONPATH", str(tmp_path_factory.mktemp("path")))
    module_patch.setenv("PYTEST_ADDOPTS", "--collect-only")
    workbook = make_workbook(tmp_path_factory.mktemp("faults"), module_patch)
    write_all(workbook)
    settings = Settings(timeout=TIMEOUT, jobs=min(4, os.cpu_count() or 1))
    grades = grade_folder(workbook.submissions, workbook.root, workbook.chapters, settings)
    assert len(grades) == len({grade.submission for grade in grades})
    return {Path(grade.submission).stem: grade for grade in grades}


def outcomes(grade: Grade) -> list[str]:
    return [verdict.outcome.value for _, verdict in grade.exercises]


def test_the_six_kinds_of_submission_get_six_right_lines(graded: dict[str, Grade]) -> None:
    assert [(graded[name].state, graded[name].passed) for name in ("right", "wrong", "empty")] == [
        (State.GRADED, 2),
        (State.GRADED, 1),
        (State.NOT_ATTEMPTED, 0),
    ]
    assert (graded["F26 (copy 2)"].state, graded["F26 (copy 2)"].passed) == (State.GRADED, 2)
    assert graded["endless"].state is State.TIMEOUT
    assert graded["broken"].state is State.INVALID
    assert graded["wrong"].exercises[0][1].line("99-1") == (
        "99-1 wrong: double(n) is not 2 * n; smallest counterexample: n = 1"
    )


def test_no_fault_of_ours_among_them(graded: dict[str, Grade]) -> None:
    assert [name for name, grade in graded.items() if grade.state is State.ENV_ERROR] == []


def test_an_endless_answer_costs_only_its_own_exercise(graded: dict[str, Grade]) -> None:
    assert outcomes(graded["endless"]) == ["exception", "passed"]
    assert graded["endless"].reason == "in the answer cell of 99-1"


def test_an_answer_that_catches_the_interrupt_is_stopped_all_the_same(graded: dict[str, Grade]) -> None:
    assert graded["stubborn"].state is State.TIMEOUT
    assert graded["stubborn"].reason == "in the answer cell of 99-1"
    assert graded["stubborn"].passed == 0


def test_a_flood_of_output_costs_nothing(graded: dict[str, Grade]) -> None:
    assert graded["flood"].passed == 2


def test_control_characters_of_an_answer_reach_no_terminal(graded: dict[str, Grade]) -> None:
    verdict = graded["escapes"].exercises[0][1]
    assert verdict.reason == "double(0) raised ValueError: ?[31m[bold]?"


def test_an_answer_that_does_not_parse_is_an_exception(graded: dict[str, Grade]) -> None:
    assert outcomes(graded["syntax"]) == ["exception", "passed"]
    assert graded["syntax"].exercises[0][1].reason.startswith("SyntaxError: ")


def test_a_notebook_of_no_chapter_says_so(graded: dict[str, Grade]) -> None:
    assert graded["other"].state is State.INVALID
    assert graded["other"].reason == "the notebook's metadata names no chapter and no exercise ids"


def test_checkpoints_are_no_submissions(graded: dict[str, Grade]) -> None:
    assert "right-checkpoint" not in graded


def test_F01_a_check_cell_that_may_raise_is_tampered(graded: dict[str, Grade]) -> None:
    assert graded["F01"].state is State.TAMPERED
    assert graded["F01"].reason == "tag raises-exception added: 99-1"


def test_F02_a_bad_magic_that_hides_the_answer_is_wrong(graded: dict[str, Grade]) -> None:
    assert outcomes(graded["F02"]) == ["wrong", "passed"]
    reason = graded["F02"].exercises[0][1].reason
    assert reason.startswith("double is not defined; UsageError: Line magic function `%notmagic` not found")


@pytest.mark.parametrize("name", ["F04", "F04b"])
def test_F04_a_changed_cell_type_is_tampered(graded: dict[str, Grade], name: str) -> None:
    assert (graded[name].state, graded[name].reason) == (State.TAMPERED, "cell type changed: 99-1")


def test_F05_of_two_copies_of_an_answer_the_last_counts(graded: dict[str, Grade]) -> None:
    assert graded["F05"].passed == 2
    assert graded["F05"].notes == ("99-1: 2 answer cells carry this id; the last one counts",)


def test_F07_a_deleted_check_is_put_back_and_reported(graded: dict[str, Grade]) -> None:
    assert outcomes(graded["F07"]) == ["wrong", "passed"]
    assert graded["F07"].notes == ("99-1: the check cell was deleted; ours was used",)


def test_F08_cleared_outputs_do_not_help(graded: dict[str, Grade]) -> None:
    assert outcomes(graded["F08"]) == ["wrong", "passed"]


@pytest.mark.parametrize(
    ("name", "what"),
    [("F10", "marker NBVAL_SKIP"), ("F10b", "tag nbval-skip"), ("F10c", "marker NBVAL_SKIP")],
)
def test_F10_a_skip_is_tampered_also_inside_a_string(graded: dict[str, Grade], name: str, what: str) -> None:
    assert (graded[name].state, graded[name].reason) == (State.TAMPERED, f"{what} added: 99-1")


def test_F11_input_is_an_exception_in_plain_words(graded: dict[str, Grade]) -> None:
    assert outcomes(graded["F11"]) == ["exception", "exception"]
    for _, verdict in graded["F11"].exercises:
        assert "input() cannot be used: nobody is there to answer" in verdict.reason


def test_F13_a_dead_kernel_is_named_with_its_cell(graded: dict[str, Grade]) -> None:
    for name, cell in (("F13", "99-2"), ("F13b", "99-1")):
        assert graded[name].state is State.KERNEL_DIED
        assert graded[name].reason == f"in the answer cell of {cell}"
    assert outcomes(graded["F13"]) == ["passed", "exception"]
    assert outcomes(graded["F13b"]) == ["exception", "unknown"]


def test_F14_a_foreign_kernel_is_replaced_and_noted(graded: dict[str, Grade]) -> None:
    assert graded["F14"].passed == 2
    assert graded["F14"].notes == ("kernel conda-env-foo-py ignored; ours was used",)


def test_F16_a_warning_costs_nothing_and_is_shown(graded: dict[str, Grade]) -> None:
    assert graded["F16"].passed == 2
    assert len(graded["F16"].notes) == 1
    assert "DeprecationWarning: old" in graded["F16"].notes[0]


def test_F17_a_last_expression_is_no_score(graded: dict[str, Grade]) -> None:
    assert outcomes(graded["F17"]) == ["wrong", "passed"]


def test_F20_a_student_may_use_any_name(graded: dict[str, Grade]) -> None:
    assert graded["F20"].passed == 2


def test_F25_any_script_survives(graded: dict[str, Grade]) -> None:
    assert graded["F25"].passed == 2


def test_F26_a_renamed_notebook_is_found_by_its_metadata(graded: dict[str, Grade]) -> None:
    assert graded["F26 (copy 2)"].submission == "weiß ich nicht/F26 (copy 2).ipynb"
    assert (
        graded["F26 (copy 3)"].passed == 2
    )  # the notebook's own metadata names the chapter, cell ids the rest


def test_F29_an_answer_may_begin_with_a_cell_magic(graded: dict[str, Grade]) -> None:
    assert graded["F29"].passed == 2


def test_cheap_an_escaped_child_does_not_outlive_the_run(graded: dict[str, Grade]) -> None:
    assert graded["escape"].passed == 2
    deadline = time.monotonic() + 10
    while carriers("F_MARK", "f-escape") and time.monotonic() < deadline:
        time.sleep(0.05)  # a killed process takes a moment to leave /proc
    assert carriers("F_MARK", "f-escape") == []


def test_every_exercise_that_was_not_passed_has_a_reason_or_was_not_attempted(
    graded: dict[str, Grade],
) -> None:
    quiet = {Outcome.PASSED, Outcome.NOT_ATTEMPTED}
    for grade in graded.values():
        for exercise, verdict in grade.exercises:
            assert verdict.outcome in quiet or verdict.reason, (grade.submission, exercise)


def test_the_report_says_the_same_in_all_three_forms(graded: dict[str, Grade]) -> None:
    grades = list(graded.values())
    table = report.as_table(grades).splitlines()
    rows = list(csv.DictReader(io.StringIO(report.as_csv(grades))))
    assert len(table) - 1 == len(rows) == len(grades)
    assert [row["state"] for row in rows] == [grade.state.value for grade in grades]
    assert all(row["submission"] in line for row, line in zip(rows, table[1:], strict=True))
