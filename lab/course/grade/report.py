"""Grades as a table for people, and as CSV and JSON for programs. Equal grades give equal bytes: no times in them."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.course.errors import CourseError
from lab.course.grade.states import Grade
from lab.course.verdict import Outcome, Verdict, printable
from lab.evidence.files import write_atomically

COLUMNS = ("submission", "chapter", "state", "passed", "exercises", "details", "notes")


def rows(grades: Sequence[Grade]) -> list[dict[str, str]]:
    """One row per submission, in the columns of COLUMNS."""
    return [
        {
            "submission": printable(grade.submission),
            "chapter": printable(grade.chapter or ""),
            "state": grade.state.value,
            "passed": str(grade.passed),
            "exercises": str(len(grade.exercises)),
            "details": "; ".join(filter(None, [grade.reason, *_failures(grade)])),
            "notes": "; ".join(grade.notes),
        }
        for grade in grades
    ]


def as_table(grades: Sequence[Grade]) -> str:
    """Aligned plain text, for pipes; details and notes share the last column, which is not padded."""
    shown: list[tuple[str, ...]] = [(*COLUMNS[:-2], "details")]
    for row in rows(grades):
        *cells, details, notes = row.values()
        shown.append((*cells, "; ".join(filter(None, (details, notes and f"note: {notes}")))))
    widths = [max(len(row[column]) for row in shown) for column in range(len(COLUMNS) - 2)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in shown
    )


def as_csv(grades: Sequence[Grade]) -> str:
    """CSV with a header. A cell that a spreadsheet would take for a formula gets a quote before it."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_harmless(text) for text in row.values()] for row in rows(grades))
    return stream.getvalue()


def as_json(grades: Sequence[Grade]) -> str:
    """Everything that is known, exercise by exercise."""
    return json.dumps([_plain(grade) for grade in grades], ensure_ascii=False, indent=1) + "\n"


def prepare(prefix: Path) -> None:
    """Make the folder for `prefix`.csv and `prefix`.json, before hours are spent on what goes there.

    :raises CourseError: they cannot be written
    """
    if not prefix.name:
        raise CourseError("--out must name a file, without its ending")
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=prefix.parent):
            pass
    except OSError as error:
        raise CourseError(f"cannot write in {prefix.parent}: {error.strerror}") from error
    for path in _paths(prefix):
        if path.is_dir():
            raise CourseError(f"cannot write {path}: it is a folder")


def write(grades: Sequence[Grade], prefix: Path) -> tuple[Path, Path]:
    """Write `prefix`.csv and `prefix`.json, each in one step, where `prepare` has been; returns both paths."""
    paths = _paths(prefix)
    for path, text in zip(paths, (as_csv(grades), as_json(grades)), strict=True):
        write_atomically(path, text)
    return paths


def _paths(prefix: Path) -> tuple[Path, Path]:
    return prefix.with_name(prefix.name + ".csv"), prefix.with_name(prefix.name + ".json")


def _failures(grade: Grade) -> list[str]:
    return [
        verdict.line(exercise)
        for exercise, verdict in grade.exercises
        if verdict.outcome is not Outcome.PASSED
    ]


def _plain(grade: Grade) -> dict[str, Any]:
    return {
        "submission": printable(grade.submission),
        "chapter": None if grade.chapter is None else printable(grade.chapter),
        "state": grade.state.value,
        "reason": grade.reason,
        "passed": grade.passed,
        "exercises": {exercise: _plain_verdict(verdict) for exercise, verdict in grade.exercises},
        "notes": list(grade.notes),
    }


def _plain_verdict(verdict: Verdict) -> dict[str, str | None]:
    return {
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "counterexample": verdict.counterexample,
    }


def _harmless(text: str) -> str:
    return "'" + text if text.startswith(("=", "+", "-", "@")) else text
