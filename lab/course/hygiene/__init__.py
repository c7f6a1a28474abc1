"""What must be true of a chapter before it ships; `lab notebooks check` prints the findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.course import registry
from lab.course.exercise import Exercise
from lab.course.hygiene.chapter import check_chapter
from lab.course.hygiene.exercises import check_exercises
from lab.course.hygiene.finding import Finding
from lab.course.hygiene.form import check_form
from lab.course.hygiene.outputs import check_outputs
from lab.course.hygiene.sources import check_sources
from lab.course.notebook import InvalidNotebook, read

__all__ = ["Finding", "check_notebook"]


def check_notebook(path: Path, exercises: Sequence[Exercise] | None = None) -> list[Finding]:
    """Everything that is wrong with one chapter; an empty list means: in order.

    `exercises` are those of the chapter's store, by default looked up by its number.
    """
    try:
        notebook = read(path)
    except InvalidNotebook as error:
        return [Finding(str(error))]
    broken = list(check_form(notebook))
    if any(
        finding.cell is None and finding.problem.startswith(("not valid", "format")) for finding in broken
    ):
        return broken  # the other checks rely on a valid file
    store = registry.of_chapter(path.name[:2]) if exercises is None else exercises

    def rest() -> Iterator[Finding]:
        yield from check_sources(notebook)
        yield from check_outputs(notebook)
        yield from check_chapter(notebook, path)
        yield from check_exercises(notebook, store)

    return broken + sorted(rest(), key=lambda finding: finding.cell or 0)
