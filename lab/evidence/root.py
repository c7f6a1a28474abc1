"""Where the workbook lies: LAB_ROOT, else the checkout above the current folder, else the installed copy."""

from __future__ import annotations

import os
from pathlib import Path

from lab.evidence.errors import EvidenceError

PACKAGE = Path(__file__).resolve().parents[1]


def find_root() -> Path:
    """The folder that holds `chapters/` and `evidence/`.

    :raises EvidenceError: LAB_ROOT names something else, or there is no workbook anywhere
    """
    named = os.environ.get("LAB_ROOT")
    if named:
        if not is_root(Path(named)):
            raise EvidenceError(f"LAB_ROOT={named} holds no chapters/ and evidence/ folders")
        return Path(named).resolve()
    here = Path.cwd()
    # the copy in a wheel is lab/workbook; an editable install has the checkout around the package
    for folder in (
        *(folder for folder in (here, *here.parents) if _is_checkout(folder)),
        PACKAGE / "workbook",
        PACKAGE.parent,
    ):
        if is_root(folder):
            return folder.resolve()
    raise EvidenceError("no workbook found: set LAB_ROOT to a checkout of it, or install the package again")


def is_root(folder: Path) -> bool:
    """Whether `folder` looks like the workbook."""
    return (folder / "chapters").is_dir() and (folder / "evidence").is_dir()


def evidence_root() -> Path:
    """The evidence folder of the workbook."""
    return find_root() / "evidence"


def _is_checkout(folder: Path) -> bool:
    return is_root(folder) and (folder / "lab").is_dir() and (folder / "pyproject.toml").is_file()
