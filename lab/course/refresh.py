"""Running a chapter from top to bottom and storing what it printed, in the one form that is stored."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.course.errors import CourseError
from lab.course.kernel import environment, kernel_manager_class
from lab.course.normalise import normalise
from lab.course.notebook import Notebook, dumps, read, source
from lab.course.quick_nbformat import nbformat
from lab.evidence.files import write_atomically

Progress = Callable[[int, int, str], None]  # cells done, cells in all, first line of the current one


class ChapterFailed(CourseError):
    """A cell raised, hung, or killed the kernel; the file was left as it was."""


def refresh(path: Path, root: Path, *, timeout: float = 120, progress: Progress | None = None) -> bool:
    """Run the chapter in its folder and store the outputs; True when the file changed.

    `timeout` is in seconds per cell.

    :raises InvalidNotebook: the file is not a notebook
    :raises ChapterFailed: it does not run; the message names the cell
    """
    before = path.read_text(encoding="utf-8")
    fresh = dumps(normalise(execute(read(path), path.parent, root, timeout, progress), path.name[:2]))
    if fresh == before:
        return False
    write_atomically(path, fresh)
    return True


def execute(
    notebook: Notebook, folder: Path, root: Path, timeout: float = 120, progress: Progress | None = None
) -> Notebook:
    """The notebook with the outputs of a run in `folder`, by this interpreter.

    :raises ChapterFailed: a cell raised (without the tag for it), hung, or killed the kernel
    """
    from nbclient import NotebookClient  # after quick_nbformat
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    node = nbformat.reads(dumps({**notebook, "metadata": {}}), as_version=4)  # type: ignore[no-untyped-call]
    started = _Started(sum(cell["cell_type"] == "code" for cell in notebook["cells"]), progress)
    try:
        with tempfile.TemporaryDirectory() as scratch, _environ(environment(root, Path(scratch))):
            client = NotebookClient(
                node,
                kernel_manager_class=kernel_manager_class(),
                timeout=timeout,
                kernel_name="python3",
                store_widget_state=False,
                record_timing=False,
                on_cell_start=started,
                resources={"metadata": {"path": str(folder)}},
            )
            client.execute(stderr=subprocess.DEVNULL)  # what the kernel itself says, not its cells
    except CellTimeoutError as error:
        raise ChapterFailed(f"cell {started.number} took longer than {timeout:g} s") from error
    except CellExecutionError as error:
        raise ChapterFailed(f"cell {started.number} raised {error.ename}: {error.evalue}") from error
    except DeadKernelError as error:
        raise ChapterFailed(f"cell {started.number} killed the kernel") from error
    except RuntimeError as error:
        raise ChapterFailed(f"no kernel: {error}") from error
    return {**notebook, "cells": [dict(cell) for cell in node.cells]}


class _Started:
    """Called at the start of each cell: remembers which one, counted from 1, and reports progress."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.number = 0
        self._done = 0
        self._total = total
        self._progress = progress

    def __call__(self, cell: Any, cell_index: int) -> None:
        if cell["cell_type"] != "code":
            return
        self.number = cell_index + 1
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total, (source(cell).splitlines() or [""])[0])


@contextmanager
def _environ(values: Mapping[str, str]) -> Iterator[None]:
    """The kernel inherits this process's environment: change it for the run, and put it back."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
