"""Hints in steps, and the solution behind a deliberate act."""

from __future__ import annotations

from lab.course import registry
from lab.course.errors import CourseError

_given: dict[str, int] = {}  # exercise id -> hints shown in this session


def hint(exercise_id: str, number: int | None = None) -> None:
    """Print the next hint, or the one with this number (from 1). The last one is repeated.

    Example: hint("01-1")

    :raises UnknownExercise: no such id
    :raises CourseError: no hint has this number
    """
    exercise = registry.get(exercise_id)
    total = len(exercise.hints)
    if number is None:
        number = min(_given.get(exercise_id, 0) + 1, total)
    if not 1 <= number <= total:
        raise CourseError(f"{exercise_id} has {total} hints, not a hint {number}")
    _given[exercise_id] = number
    print(f"Hint {number} of {total}: {exercise.hints[number - 1]}")


def solution(exercise_id: str, reveal: bool = False) -> None:
    """Print one right answer, if you say that you want to see it.

    Example: solution("01-1", reveal=True)

    :raises UnknownExercise: no such id
    """
    exercise = registry.get(exercise_id)
    if reveal:
        print(exercise.solution.strip())
        return
    print(f"{exercise_id} has {len(exercise.hints)} hints: hint({exercise_id!r}) shows the next one.")
    print(f"To read a solution anyway: solution({exercise_id!r}, reveal=True)")
