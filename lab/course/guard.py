"""What the grader's first cell does in the kernel, so that no answer spoils the others (see grade.assemble).

This is for accidents. An answer that means harm has the whole kernel in its hands.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from lab.course.errors import CourseError


class NotebookStopped(CourseError):
    """An answer called `exit` or `quit`."""


def install(shell: Any) -> None:
    """Make `exit()` an error of its own cell, and undo after each cell what would silence the next."""
    shell.ask_exit = _refuse
    vars(sys.stdout)["close"] = vars(sys.stderr)["close"] = _keep_open
    shell.events.register("post_run_cell", _restorer())


def _refuse() -> NoReturn:
    raise NotebookStopped("exit() stops the notebook")


def _keep_open() -> None:
    """A closed stream could not be opened again, and the other answers print to it too."""


def _restorer() -> Callable[..., None]:
    stdout, stderr, write = sys.stdout, sys.stderr, builtins.print

    def restore(*_: object) -> None:
        sys.stdout, sys.stderr = stdout, stderr
        builtins.print = write

    return restore
