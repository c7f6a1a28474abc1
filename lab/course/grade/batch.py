"""Grading a folder: every submission ends in exactly one state, and none of them can stop the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from lab.course import registry
from lab.course.errors import CourseError
from lab.course.exercise import Exercise
from lab.course.grade import submission as submissions
from lab.course.grade.assemble import assemble
from lab.course.grade.run import run
from lab.course.grade.states import Grade, Ledger, State
from lab.course.grade.verdict import judge
from lab.course.notebook import InvalidNotebook, Notebook, read
from lab.course.root import chapter_paths
from lab.course.verdict import Outcome, Verdict

Progress = Callable[[Grade], None]


@dataclass(frozen=True, slots=True)
class Chapter:
    """Our own copy of a chapter and its exercises."""

    name: str
    notebook: Notebook
    exercises: tuple[Exercise, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """`timeout` is in seconds per submission; `only` restricts the batch to one chapter, "01"."""

    timeout: float = 60.0
    jobs: int = 1
    only: str | None = None


def load_chapters(root: Path) -> dict[str, Chapter]:
    """Chapter number → chapter, for every chapter that has exercises."""
    found = {}
    for path in chapter_paths(root):
        exercises = registry.of_chapter(path.name[:2])
        if exercises:
            found[path.name[:2]] = Chapter(path.name, read(path), exercises)
    return found


def grade_folder(
    folder: Path,
    root: Path,
    chapters: Mapping[str, Chapter],
    settings: Settings,
    progress: Progress | None = None,
) -> list[Grade]:
    """The grades of all submissions below `folder`, sorted by name.

    :raises CourseError: there is no notebook below it
    """
    paths = {path.relative_to(folder).as_posix(): path for path in submissions.find(folder)}
    if not paths:
        raise CourseError(f"no notebooks in {folder}")
    ledger, batch = Ledger(list(paths)), Batch(root, chapters, settings)
    with ThreadPoolExecutor(settings.jobs) as pool:
        waiting = [pool.submit(batch.grade, name, path) for name, path in paths.items()]
        try:
            for done in as_completed(waiting):
                ledger.settle(done.result())
                if progress is not None:
                    progress(done.result())
        except BaseException:  # Ctrl-C: end what runs, start nothing more
            batch.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return ledger.grades()


class Batch:
    """Grades submissions one by one against the same chapters; `grade` may be called from several threads."""

    def __init__(self, root: Path, chapters: Mapping[str, Chapter], settings: Settings) -> None:
        self.stop = threading.Event()
        self._root = root
        self._chapters = chapters
        self._settings = settings

    def grade(self, name: str, path: Path) -> Grade:
        """The grade of one submission. Whatever happens, there is one."""
        number: str | None = None
        try:
            notebook = read(path)
            number = submissions.which_chapter(notebook)
            return self._grade(name, notebook, number, self._chapter(number))
        except (InvalidNotebook, submissions.UnknownChapter) as error:
            return Grade(name, number, State.INVALID, str(error))
        except submissions.Tampered as error:
            return Grade(name, number, State.TAMPERED, str(error))
        except Exception as error:  # a fault of ours must cost one line, not the batch
            return Grade(name, number, State.ENV_ERROR, f"{type(error).__name__}: {error}")

    def _chapter(self, number: str) -> Chapter:
        """Our copy of the chapter that a submission answers.

        :raises UnknownChapter: there is none, or another one is graded in this batch
        """
        only = self._settings.only
        if only is not None and number != only:
            raise submissions.UnknownChapter(f"answers chapter {number}, not {only}")
        if number not in self._chapters:
            raise submissions.UnknownChapter(f"there is no chapter {number!r} with exercises")
        return self._chapters[number]

    def _grade(self, name: str, notebook: Notebook, number: str, chapter: Chapter) -> Grade:
        answers = submissions.read_answers(notebook, chapter.notebook, chapter.exercises)
        if all(submissions.is_stub(exercise, answers.sources[exercise.id]) for exercise in chapter.exercises):
            verdicts = tuple((exercise.id, Verdict(Outcome.NOT_ATTEMPTED)) for exercise in chapter.exercises)
            return Grade(
                name, number, State.NOT_ATTEMPTED, "every answer is the stub", verdicts, answers.notes
            )
        assembled = assemble(chapter.notebook, answers.sources)
        ran = run(assembled.notebook, chapter.name, self._root, self._settings.timeout, self.stop)
        return judge(name, number, chapter.exercises, answers, assembled.slots, ran)
