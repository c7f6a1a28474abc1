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


@pytest.mark.parametrize("number", CHAPTERS)
def test_six_kinds_of_submission_get_six_right_lines(number: str, tmp_path: Path) -> None:
    exercises = CHAPTERS[number].exercises
    right = {exercise.id: exercise.solution for exercise in exercises}
    wrong = {exercise.id: exercise.wrong[0].source for exercise in exercises}
    endless = {**right, exercises[0].id: "while True:\n    pass"}
    submit(tmp_path, "right.ipynb", number, right)
    submit(tmp_path, "wrong.ipynb", number, wrong)
    submit(tmp_path, "empty.ipynb", number, {exercise.id: exercise.stub for exercise in exercises})
    submit(tmp_path, "my answers (final).ipynb", number, right)
    submit(tmp_path, "endless.ipynb", number, endless)
    (tmp_path / "broken.ipynb").write_text("{", encoding="utf-8")
    grades = grade_folder(tmp_path, ROOT, CHAPTERS, Settings(timeout=30, jobs=2))
    count = len(exercises)
    assert [(grade.submission, grade.state, grade.passed) for grade in grades] == [
        ("broken.ipynb", State.INVALID, 0),
        ("empty.ipynb", State.NOT_ATTEMPTED, 0),
        ("endless.ipynb", State.TIMEOUT, count - 1),
        ("my answers (final).ipynb", State.GRADED, count),
        ("right.ipynb", State.GRADED, count),
        ("wrong.ipynb", State.GRADED, 0),
    ]
    reasons = dict(grades[-1].exercises)
    for exercise in exercises:
        assert exercise.wrong[0].reason in reasons[exercise.id].line(exercise.id)
