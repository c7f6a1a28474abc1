"""Quiz questions with a reason for every option. The right answers live in the store, not in the notebook."""

from __future__ import annotations

import string

from lab.course import registry
from lab.course.errors import CourseError
from lab.course.exercise import Question


def quiz(question_id: str, answer: str | None = None) -> None:
    """Print a question with its options, or, given the letter of an option, whether it is right and why.

    Example: quiz("01-q1"), then quiz("01-q1", "b")

    :raises UnknownExercise: no such question
    :raises CourseError: no such option
    """
    question = registry.get_question(question_id)
    if answer is None:
        print(_ask(question))
        return
    letters = string.ascii_lowercase[: len(question.options)]
    letter = answer.strip().lower()
    if len(letter) != 1 or letter not in letters:
        raise CourseError(f"{question_id} has the options {', '.join(letters)}, not {answer!r}")
    option = question.options[letters.index(letter)]
    print(f"{question_id} {letter} is {'right' if option.right else 'not right'}: {option.reason}")


def _ask(question: Question) -> str:
    rows = [f"{question.id} {question.text}"]
    rows += [
        f"  {letter}) {option.text}"
        for letter, option in zip(string.ascii_lowercase, question.options, strict=False)
    ]
    rows.append(f'Answer with quiz("{question.id}", "a")')
    return "\n".join(rows)
