"""The proof for every exercise that ships: its check tells stub, solution and each wrong answer apart."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
from typing import Any

import pytest

from lab.course import Exercise, Outcome, Question, Verdict
from lab.course.check import evaluate
from lab.course.hygiene import check_notebook
from lab.course.notebook import code_cells, read, source
from lab.course.registry import all_exercises, all_questions, get, get_question
from lab.course.root import chapter_paths, workbook_root

EXERCISES = all_exercises()
QUESTIONS = all_questions()
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
each_wrong = pytest.mark.parametrize(
    ("exercise", "number"),
    [(exercise, number) for exercise in EXERCISES for number in range(len(exercise.wrong))],
    ids=lambda value: value.id if isinstance(value, Exercise) else str(value),
)


@functools.cache
def imports_of(chapter: str) -> dict[str, Any]:
    """What the first code cell of a chapter imports: an answer may use that."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for path in chapter_paths(workbook_root()):
        if path.name[:2] == chapter:
            tree = ast.parse(source(code_cells(read(path))[0]))
            tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
            exec(compile(tree, path.name, "exec"), namespace)
    return namespace


def verdict_on(exercise: Exercise, text: str) -> Verdict:
    """The verdict on an answer cell with this source."""
    namespace = dict(imports_of(exercise.chapter))
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, exercise.id, "exec"), namespace)
    return evaluate(exercise, namespace)


@each
def test_the_stub_is_not_attempted(exercise: Exercise) -> None:
    assert verdict_on(exercise, exercise.stub).line(exercise.id) == f"{exercise.id} not attempted"


@each
def test_the_solution_passes(exercise: Exercise) -> None:
    assert verdict_on(exercise, exercise.solution).line(exercise.id) == f"{exercise.id} passed"


@each_wrong
def test_a_plausible_wrong_answer_is_wrong_for_its_own_reason(exercise: Exercise, number: int) -> None:
    answer = exercise.wrong[number]
    verdict = verdict_on(exercise, answer.source)
    assert verdict.outcome is Outcome.WRONG, answer.label
    assert answer.reason, answer.label
    assert answer.reason in verdict.line(exercise.id), answer.label


@each_wrong
def test_a_verdict_does_not_change_from_run_to_run(exercise: Exercise, number: int) -> None:
    text = exercise.wrong[number].source
    assert verdict_on(exercise, text) == verdict_on(exercise, text)


@each
def test_an_exercise_is_complete(exercise: Exercise) -> None:
    assert len(exercise.wrong) >= 2
    assert len({answer.label for answer in exercise.wrong}) == len(exercise.wrong)
    assert len(exercise.hints) >= 2
    assert all(hint.strip() for hint in exercise.hints)
    assert exercise.title
    assert exercise.names
    assert 1 <= exercise.minutes <= 60
    assert get(exercise.id) is exercise


@each
def test_a_hint_does_not_give_the_answer_away(exercise: Exercise) -> None:
    assert not any(exercise.solution.strip() in hint for hint in exercise.hints)


def test_ids_are_unique() -> None:
    ids = [exercise.id for exercise in EXERCISES] + [question.id for question in QUESTIONS]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_a_question_has_right_and_wrong_options_with_reasons(question: Question) -> None:
    assert get_question(question.id) is question
    rights = [option.right for option in question.options]
    assert any(rights)
    assert not all(rights)
    assert all(option.text and option.reason for option in question.options)
    assert len({option.text for option in question.options}) == len(question.options)


@pytest.mark.parametrize("path", chapter_paths(workbook_root()), ids=lambda path: path.stem)
def test_a_chapter_is_in_order(path: Any) -> None:
    """Among much else: stubs equal the store's, ids are known and unique, no solution stands in the text."""
    assert [str(finding) for finding in check_notebook(path)] == []


def test_every_exercise_has_its_chapter() -> None:
    chapters = {path.name[:2] for path in chapter_paths(workbook_root())}
    assert {exercise.chapter for exercise in EXERCISES} <= chapters


@each
def test_every_check_is_called_in_its_chapter(exercise: Exercise) -> None:
    paths = [path for path in chapter_paths(workbook_root()) if path.name[:2] == exercise.chapter]
    assert len(paths) == 1
    assert any(f'check("{exercise.id}")' in source(cell) for cell in read(paths[0])["cells"])
