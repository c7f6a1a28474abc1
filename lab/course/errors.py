"""The exceptions of the course package, all of them under LabError."""

from __future__ import annotations

from lab.core.errors import LabError


class CourseError(LabError):
    """Something about the course material or its use is wrong; the message says what to do."""


class UnknownExercise(CourseError, KeyError):
    """No exercise (or question) has this id."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


class RootNotFound(CourseError):
    """Neither LAB_ROOT, nor a checkout above the current folder, nor an installed workbook was found."""


class LeakError(CourseError):
    """A chapter left tasks, threads, child processes or listening ports behind."""


class PredictionMissing(CourseError):
    """`reveal` was called before `predict`."""


class InputUsed(CourseError):
    """An answer asked the keyboard while it was checked."""


class AnswerRaised(CourseError):
    """A student's function raised; the message holds the call and the error."""

    def __init__(self, call: str, error: BaseException) -> None:
        super().__init__(f"{call} raised {describe(error)}")


def describe(error: BaseException) -> str:
    """`TypeError: message` in the form a learner knows from tracebacks."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
