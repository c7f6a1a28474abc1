"""Where the workbook lies; the rule itself is in lab.evidence.root, the lowest layer that needs it."""

from __future__ import annotations

from pathlib import Path

from lab.course.errors import RootNotFound
from lab.evidence import EvidenceError
from lab.evidence.root import find_root


def workbook_root() -> Path:
    """LAB_ROOT, else the checkout above the current folder, else the installed copy.

    :raises RootNotFound: there is none, or LAB_ROOT names something else
    """
    try:
        return find_root()
    except EvidenceError as error:
        raise RootNotFound(str(error)) from error


def chapter_paths(root: Path) -> list[Path]:
    """The chapters in order: chapters/NN_slug.ipynb."""
    return sorted((root / "chapters").glob("[0-9][0-9]_*.ipynb"))
