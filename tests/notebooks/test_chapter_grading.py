"""The grader against the real chapters: solutions pass in what it assembles, wrong answers do not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from lab.course.grade import Settings, State, grade_folder, load_chapters
from lab.course.notebook import dumps, exercise_of
from lab.course.root import workbook_root

ROOT = workbook_root()
CHAPTERS = load_chapters(ROOT)


def submit(folder: Path, name: str, number: str, answers: dict[str, str]) -> None:
    notebook: dict[str, Any] = copy.deepcopy(CHAPTERS[number].notebook)
    for cell in notebook["cells"]:
        mark = exercise_of(cell)
        if mark is not None and mark[1] == "answer":
            cell["source"] = answers[mark[0]]
    (folder / name).write_text(dumps(notebook), encoding="utf-8")


def graded(folder: Path) -> list[tuple[str, State, int]]:
    grades = grade_folder(folder, ROOT, CHAPTERS, Settings(timeout=40, jobs=2))
    return [(grade.submission, grade.state, grade.passed) for grade in grades]


@pytest.mark.parametrize("number", CHAPTERS)
def test_solutions_pass_wrong_answers_do_not_and_stubs_are_not_run(number: str, tmp_path: Path) -> None:
    exercises = CHAPTERS[number].exercises
    submit(tmp_path, "right.ipynb", number, {exercise.id: exercise.solution for exercise in exercises})
    submit(tmp_path, "wrong.ipynb", number, {exercise.id: exercise.wrong[0].source for exercise in exercises})
    submit(tmp_path, "empty.ipynb", number, {exercise.id: exercise.stub for exercise in exercises})
    assert graded(tmp_path) == [
        ("empty.ipynb", State.NOT_ATTEMPTED, 0),
        ("right.ipynb", State.GRADED, len(exercises)),
        ("wrong.ipynb", State.GRADED, 0),
    ]


def test_a_renamed_an_endless_and_a_broken_notebook_get_their_lines_too(tmp_path: Path) -> None:
    number, chapter = next(iter(CHAPTERS.items()))
    right = {exercise.id: exercise.solution for exercise in chapter.exercises}
    submit(tmp_path, "my answers (final).ipynb", number, right)
    submit(tmp_path, "endless.ipynb", number, {**right, chapter.exercises[0].id: "while True:\n    pass"})
    (tmp_path / "broken.ipynb").write_text("{", encoding="utf-8")
    assert graded(tmp_path) == [
        ("broken.ipynb", State.INVALID, 0),
        ("endless.ipynb", State.TIMEOUT, len(right) - 1),
        ("my answers (final).ipynb", State.GRADED, len(right)),
    ]
