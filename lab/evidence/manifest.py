"""MANIFEST.sha256: one line per evidence file, in the format of `sha256sum`, sorted by name.

`sha256sum -c MANIFEST.sha256` inside the evidence folder checks the same thing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from lab.evidence.errors import EvidenceError
from lab.evidence.files import sha256_file, write_atomically

NAME = "MANIFEST.sha256"


def evidence_files(root: Path) -> list[Path]:
    """Every file below `root` except the manifest and hidden ones, sorted."""
    found = (path for path in root.rglob("*") if path.is_file() and path.name != NAME)
    return sorted(
        path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)
    )


def read_manifest(root: Path) -> dict[str, str]:
    """Name relative to `root` → SHA-256. A missing manifest is empty.

    :raises EvidenceError: a line is not `<64 hex digits>  <name>`, or a name comes twice
    """
    path = root / NAME
    if not path.is_file():
        return {}
    entries: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        value, separator, name = line.partition("  ")
        if not separator or len(value) != 64 or not name or name in entries:
            raise EvidenceError(f"{NAME} line {number} is malformed: {line!r}")
        entries[name] = value
    return entries


def write_manifest(root: Path) -> None:
    """Hash every evidence file again and replace the manifest."""
    with _locked(root):
        _write(root, {path.relative_to(root).as_posix(): sha256_file(path) for path in evidence_files(root)})


def update_manifest(root: Path, path: Path) -> None:
    """Set the line of one file and leave the others, so that an edit elsewhere is not blessed in passing."""
    with _locked(root):
        entries = read_manifest(root)
        entries[path.relative_to(root).as_posix()] = sha256_file(path)
        _write(root, {name: value for name, value in entries.items() if (root / name).is_file()})


def _write(root: Path, entries: dict[str, str]) -> None:
    write_atomically(root / NAME, "".join(f"{entries[name]}  {name}\n" for name in sorted(entries)))


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One writer at a time: the lock is on the folder itself, so no lock file is left behind."""
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
