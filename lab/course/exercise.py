"""An exercise as data: stub, solution, plausible wrong answers, hints and the check that tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.course.verdict import Verdict

Namespace = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A mistake that people really make. `reason` must occur in the line that the check prints for it."""

    label: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise of a chapter.

    id        "01-1": the chapter, then the number
    names     what the answer cell defines; `check` receives exactly these
    stub      source of the answer cell as shipped: defines the names and raises NotImplementedError
    solution  source that passes; wrong: sources that must not
    check     judges the named values; returns a Verdict, raises nothing of its own
    minutes   the time it takes a learner
    """

    id: str
    title: str
    names: tuple[str, ...]
    stub: str
    solution: str
    wrong: tuple[WrongAnswer, ...]
    hints: tuple[str, ...]
    check: Callable[[Namespace], Verdict]
    minutes: int

    @property
    def chapter(self) -> str:
        """The number of the chapter, "01"."""
        return self.id.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a question, with the reason that a learner reads after choosing it."""

    text: str
    reason: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A quiz question; the options are named a, b, c ... in order, and at least one is right."""

    id: str
    text: str
    options: tuple[Option, ...]
