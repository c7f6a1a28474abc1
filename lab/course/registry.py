"""Finds exercises and questions by id: "01-1" lives in lab.course.exercises.ch01."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import ModuleType

from lab.course import exercises
from lab.course.errors import UnknownExercise
from lab.course.exercise import Exercise, Question

_ID = re.compile(r"(\d\d)-\w+")


def get(exercise_id: str) -> Exercise:
    """The exercise with this id.

    :raises UnknownExercise: there is none; the message lists the ids of that chapter
    """
    found = {exercise.id: exercise for exercise in of_chapter(_chapter_of(exercise_id))}
    if exercise_id not in found:
        raise UnknownExercise(f"no exercise {exercise_id!r}; known here: {', '.join(found) or 'none'}")
    return found[exercise_id]


def get_question(question_id: str) -> Question:
    """The quiz question with this id.

    :raises UnknownExercise: there is none
    """
    module = _module(_chapter_of(question_id))
    found: dict[str, Question] = {question.id: question for question in getattr(module, "QUIZ", ())}
    if question_id not in found:
        raise UnknownExercise(f"no question {question_id!r}; known here: {', '.join(found) or 'none'}")
    return found[question_id]


def of_chapter(chapter: str) -> tuple[Exercise, ...]:
    """The exercises of chapter "01", in order; empty for a chapter without a store."""
    module = _module(chapter)
    found: tuple[Exercise, ...] = getattr(module, "EXERCISES", ())
    return found


def all_exercises() -> tuple[Exercise, ...]:
    """Every exercise of every chapter, in order."""
    return tuple(exercise for chapter in _chapters() for exercise in of_chapter(chapter))


def all_questions() -> tuple[Question, ...]:
    """Every quiz question of every chapter, in order."""
    found: list[Question] = []
    for chapter in _chapters():
        found.extend(getattr(_module(chapter), "QUIZ", ()))
    return tuple(found)


def _chapters() -> list[str]:
    names = sorted(module.name for module in pkgutil.iter_modules(exercises.__path__))
    return [name.removeprefix("ch") for name in names if name.startswith("ch")]


def _chapter_of(exercise_id: str) -> str:
    match = _ID.fullmatch(exercise_id) if isinstance(exercise_id, str) else None
    if match is None:
        raise UnknownExercise(f"{exercise_id!r} is not an exercise id; they look like '01-1'")
    return match.group(1)


def _module(chapter: str) -> ModuleType | None:
    name = f"{exercises.__name__}.ch{chapter}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return None
        raise
