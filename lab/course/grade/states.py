"""The seven ends of a submission, what is known of each exercise, and the ledger that settles each one once."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.course.errors import CourseError
from lab.course.verdict import Outcome, Verdict, one_line


class State(StrEnum):
    """How grading one submission ended; exactly one of these."""

    GRADED = "GRADED"
    NOT_ATTEMPTED = "NOT_ATTEMPTED"  # every answer is still the stub
    TAMPERED = "TAMPERED"  # something that would change what nbval does
    TIMEOUT = "TIMEOUT"
    KERNEL_DIED = "KERNEL_DIED"
    INVALID = "INVALID"  # not a notebook, or of no known chapter
    ENV_ERROR = "ENV_ERROR"  # our fault or the machine's, never the student's


@dataclass(frozen=True, slots=True)
class Grade:
    """The end of one submission.

    Reasons and notes may quote a student, so each is put on one printable line here, whoever wrote it.

    exercises  exercise id → verdict, in chapter order; empty when nothing could be graded
    notes      what a teacher should know and what did not change the result
    """

    submission: str
    chapter: str | None
    state: State
    reason: str = ""
    exercises: tuple[tuple[str, Verdict], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        exercises = tuple((exercise, _printable(verdict)) for exercise, verdict in self.exercises)
        object.__setattr__(self, "reason", one_line(self.reason))
        object.__setattr__(self, "exercises", exercises)
        object.__setattr__(self, "notes", tuple(map(one_line, self.notes)))

    @property
    def passed(self) -> int:
        """How many exercises passed."""
        return sum(verdict.outcome is Outcome.PASSED for _, verdict in self.exercises)


def _printable(verdict: Verdict) -> Verdict:
    shown = verdict.counterexample
    return replace(
        verdict, reason=one_line(verdict.reason), counterexample=None if shown is None else one_line(shown)
    )


class Ledger:
    """Submission → grade, each settled exactly once; safe to use from several threads."""

    def __init__(self, names: list[str]) -> None:
        self._grades: dict[str, Grade | None] = dict.fromkeys(names)
        self._lock = threading.Lock()

    def settle(self, grade: Grade) -> None:
        """Write the one grade of a submission.

        :raises CourseError: it has one already, or is not in this batch
        """
        with self._lock:
            if self._grades.get(grade.submission, grade) is not None:
                raise CourseError(f"{grade.submission} is unknown or has its grade already")
            self._grades[grade.submission] = grade

    def grades(self) -> list[Grade]:
        """The grades so far, in the order of the batch."""
        with self._lock:
            return [grade for grade in self._grades.values() if grade is not None]
