"""The learner's working copy: chapters are copied into it once and never overwritten after that.

`.lab.json` in the copy remembers which edition of each chapter was copied, as a SHA-256: a copy that is
still byte for byte that edition holds no answers and may be replaced by a newer one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lab.course.errors import CourseError
from lab.course.root import chapter_paths
from lab.evidence.files import sha256_file, write_atomically

RECORD = ".lab.json"


class Step(StrEnum):
    """What happened to one chapter."""

    COPIED = "copied"
    RENEWED = "renewed, your copy was untouched"
    KEPT = "kept"
    OUTDATED = "kept as you left it; a newer edition exists"


@dataclass(frozen=True, slots=True)
class Copied:
    """One chapter of the working copy after a top-up."""

    path: Path
    step: Step


def default_folder(root: Path) -> Path:
    """`work/` in the checkout, else, for an installed workbook, in the current folder."""
    return (root if (root / "pyproject.toml").is_file() else Path.cwd()) / "work"


def top_up(root: Path, folder: Path) -> list[Copied]:
    """Copy every chapter that `folder` lacks, renew the untouched ones, and leave the rest alone.

    :raises CourseError: the folder cannot be written, or is the workbook's own chapters folder
    """
    if folder.resolve() == (root / "chapters").resolve():
        raise CourseError("the working copy cannot be the chapters folder itself")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        editions = _editions(folder)
        done = [_top_up_one(path, folder / path.name, editions) for path in chapter_paths(root)]
        fresh = {copied.path.name for copied in done if copied.step in (Step.COPIED, Step.RENEWED)}
        editions.update((name, sha256_file(folder / name)) for name in fresh)
        write_atomically(folder / RECORD, json.dumps({"editions": editions}, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise CourseError(f"cannot write the working copy in {folder}: {error}") from error
    return done


def find_chapter(folder: Path, wanted: str) -> Path:
    """The chapter that "01", "1" or a part of its name means.

    :raises CourseError: none, or more than one
    """
    names = sorted(path.name for path in folder.glob("[0-9][0-9]_*.ipynb"))
    number = wanted.zfill(2) if wanted.isdigit() else wanted
    found = [
        name for name in names if name.startswith(f"{number}_") or (not wanted.isdigit() and wanted in name)
    ]
    if len(found) != 1:
        said = "no chapter" if not found else f"{len(found)} chapters"
        raise CourseError(f"{said} for {wanted!r}; there are {', '.join(names) or 'none'}")
    return folder / found[0]


def _top_up_one(source: Path, target: Path, editions: Mapping[str, str]) -> Copied:
    if not target.exists():
        shutil.copyfile(source, target)
        return Copied(target, Step.COPIED)
    edition, now, current = editions.get(target.name), sha256_file(target), sha256_file(source)
    if current in (edition, now):
        return Copied(target, Step.KEPT)
    if now == edition:
        shutil.copyfile(source, target)
        return Copied(target, Step.RENEWED)
    return Copied(target, Step.OUTDATED)


def _editions(folder: Path) -> dict[str, str]:
    """What `.lab.json` says; without a readable one every copy counts as edited."""
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))["editions"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
