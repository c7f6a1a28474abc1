"""Hints, solutions, predictions and quizzes, as a learner meets them."""

from __future__ import annotations

from typing import Any

import pytest

from lab.course import hint, predict, quiz, reveal, solution
from lab.course.errors import CourseError, PredictionMissing, UnknownExercise

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture
def fresh(workbook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in which nothing was asked yet."""
    monkeypatch.setattr("lab.course.help._given", {})
    predictions = __import__("importlib").import_module("lab.course.predict")
    monkeypatch.setattr(predictions, "_predictions", {})


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_hints_come_in_steps_and_the_last_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for expected in ("Hint 1 of 2: Twice is two times.", "Hint 2 of 2: n + n", "Hint 2 of 2: n + n"):
        hint("99-1")
        assert said(capsys) == expected + "\n"
    hint("99-1", 1)
    assert said(capsys).startswith("Hint 1 of 2")
    with pytest.raises(CourseError, match="99-1 has 2 hints, not a hint 3"):
        hint("99-1", 3)


def test_a_solution_needs_a_deliberate_act(capsys: pytest.CaptureFixture[str]) -> None:
    solution("99-1")
    first = said(capsys)
    assert "return 2 * n" not in first
    assert "solution('99-1', reveal=True)" in first
    solution("99-1", reveal=True)
    assert said(capsys) == "def double(n):\n    return 2 * n\n"


@pytest.mark.parametrize(
    ("guess", "actual", "distance"),
    [
        (4, 4, "right"),
        (4, 5, "off by 1"),
        (2.0, 7, "off by 5 (a factor of 3.5)"),
        (0, 7, "off by 7"),
        ("AB", "ABC", "different"),
        (True, 0, "different"),
        ([1, 2], [1, 2], "right"),
    ],
)
def test_a_prediction_is_compared(
    guess: object, actual: object, distance: str, capsys: pytest.CaptureFixture[str]
) -> None:
    predict("sent", guess)
    assert said(capsys) == f"Prediction stored for sent: {guess}\n"
    reveal("sent", actual)
    assert said(capsys) == f"sent: predicted {guess}, actual {actual}, {distance}\n"


def test_nothing_is_revealed_before_a_prediction() -> None:
    with pytest.raises(PredictionMissing, match=r"predict first: predict\('sent', your_value\)"):
        reveal("sent", 4)
    with pytest.raises(CourseError, match="needs a value"):
        predict("sent", None)


def test_a_quiz_gives_the_reason_for_right_and_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    quiz("99-q1")
    asked = said(capsys)
    assert asked.splitlines()[:3] == ["99-q1 What is twice two?", "  a) three", "  b) four"]
    quiz("99-q1", "B ")
    assert said(capsys) == "99-q1 b is right: two and two\n"
    quiz("99-q1", "a")
    assert said(capsys) == "99-q1 a is not right: that is two and one\n"
    with pytest.raises(CourseError, match="has the options a, b, not 'c'"):
        quiz("99-q1", "c")
    with pytest.raises(UnknownExercise, match="no question '99-q2'"):
        quiz("99-q2")
