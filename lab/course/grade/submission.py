"""Reading a submission: which chapter it answers, and the source of each answer. Nothing of it is run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.course.errors import CourseError
from lab.course.exercise import Exercise
from lab.course.notebook import KERNELSPEC, Cell, Notebook, chapter_of, exercise_of, source, tags

# what nbval reads as an instruction, in comments and in strings alike
_MARKERS = ("NBVAL_SKIP", "NBVAL_IGNORE_OUTPUT", "NBVAL_CHECK_OUTPUT", "NBVAL_RAISES_EXCEPTION",
            "PYTEST_VALIDATE_IGNORE_OUTPUT")  # fmt: skip
_OWN_TAGS = {"nbval-check-output"}


class Tampered(CourseError):
    """The submission holds something that would change what the check means."""


class UnknownChapter(CourseError):
    """Nothing in the submission says which chapter it answers."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Exercise id → source of the answer cell, and notes for the teacher."""

    sources: dict[str, str]
    notes: tuple[str, ...]


def find(folder: Path) -> list[Path]:
    """Everything below `folder` that is called a notebook, sorted; hidden files and checkpoints are not.

    Folders and broken links too: what somebody handed in gets a line, even if nobody can read it.
    """
    found = (path for path in folder.rglob("*") if path.suffix.lower() == ".ipynb")
    return sorted(
        path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def which_chapter(notebook: Notebook) -> str:
    """The chapter from the notebook's own metadata, else from its exercise ids; the file name does not count.

    :raises UnknownChapter: neither says, or the ids belong to several chapters
    """
    named = chapter_of(notebook)
    if named is not None:
        return named
    marks = [mark for cell in notebook["cells"] if (mark := exercise_of(cell)) is not None]
    chapters = {exercise.partition("-")[0] for exercise, _ in marks}
    if len(chapters) == 1:
        return chapters.pop()
    said = f"exercises of {len(chapters)} chapters" if chapters else "no chapter and no exercise ids"
    raise UnknownChapter(f"the notebook's metadata names {said}")


def read_answers(notebook: Notebook, pristine: Notebook, exercises: Sequence[Exercise]) -> Answers:
    """The answers by exercise id. An answer whose metadata was lost is found by its cell id.

    :raises Tampered: a cell changed its type, or carries an instruction to nbval
    """
    known = {exercise.id: exercise for exercise in exercises}
    marks = {cell["id"]: mark for cell in pristine["cells"] if (mark := exercise_of(cell)) is not None}
    answers: dict[str, list[str]] = {}
    checks: dict[str, str] = {}
    notes: list[str] = []
    for cell in notebook["cells"]:
        mark = exercise_of(cell) or marks.get(cell.get("id", ""))
        if mark is None or mark[0] not in known:
            continue
        _refuse_tampering(cell, mark[0])
        if mark[1] == "answer":
            answers.setdefault(mark[0], []).append(source(cell))
        else:
            checks[mark[0]] = source(cell).strip()
    sources = {}
    for exercise in exercises:
        given = answers.get(exercise.id, [])
        sources[exercise.id] = _choose(exercise, given, notes)
        _compare_check(exercise.id, checks, pristine, notes)
    _note_kernel(notebook, notes)
    return Answers(sources, tuple(notes))


def is_stub(exercise: Exercise, text: str) -> bool:
    """Whether an answer is still the stub, or empty."""
    return text.strip() in ("", exercise.stub.strip())


def _refuse_tampering(cell: Cell, exercise_id: str) -> None:
    if cell["cell_type"] != "code":
        raise Tampered(f"cell type changed: {exercise_id}")
    odd = [tag for tag in tags(cell) if (tag.startswith("nbval-") or tag == "raises-exception")]
    odd = [tag for tag in odd if tag not in _OWN_TAGS]
    if odd:
        raise Tampered(f"tag {odd[0]} added: {exercise_id}")
    for line in source(cell).splitlines():  # nbval's own rule: a form feed ends a line as well
        words = line.strip()
        if words.startswith("#") and words.lstrip("#").strip() in _MARKERS:
            raise Tampered(f"marker {words.lstrip('#').strip()} added: {exercise_id}")


def _choose(exercise: Exercise, given: list[str], notes: list[str]) -> str:
    """The answer that counts: the last copy that is not the stub."""
    written = [text for text in given if not is_stub(exercise, text)]
    if not given:
        notes.append(f"{exercise.id}: the answer cell is missing")
        return exercise.stub
    if len(set(written)) > 1:
        notes.append(f"{exercise.id}: {len(written)} answer cells carry this id; the last one counts")
    return written[-1] if written else exercise.stub


def _compare_check(exercise_id: str, checks: dict[str, str], pristine: Notebook, notes: list[str]) -> None:
    wanted = {
        mark[0]: cell for cell in pristine["cells"] if (mark := exercise_of(cell)) and mark[1] == "check"
    }
    if exercise_id not in wanted:
        return
    if exercise_id not in checks:
        notes.append(f"{exercise_id}: the check cell was deleted; ours was used")
    elif checks[exercise_id] != source(wanted[exercise_id]).strip():
        notes.append(f"{exercise_id}: the check cell was edited; ours was used")


def _note_kernel(notebook: Notebook, notes: list[str]) -> None:
    spec = notebook.get("metadata", {}).get("kernelspec", {})
    name = spec.get("name") if isinstance(spec, dict) else None
    if name != KERNELSPEC["name"]:
        notes.append(f"kernel {name} ignored; ours was used")
