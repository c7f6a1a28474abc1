"""Where a recording comes from: command, commit, date, machine, versions. No host names, no user names."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

FIELDS = ("command", "commit", "dirty", "date", "machine", "cpus", "python", "versions", "seed")
PACKAGES = ("numpy", "torch")


def provenance(root: Path, *, seed: int | None, command: str | None) -> dict[str, Any]:
    """Everything in FIELDS. `root` is the workbook's folder; without git, commit and dirty are None."""
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--", "lab", "examples", "pyproject.toml")
    return {
        "command": command or _command(root),
        "commit": commit,
        "dirty": None if changes is None else bool(changes),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "versions": _versions(),
        "seed": seed,
    }


def _git(root: Path, *arguments: str) -> str | None:
    """The output of a git command in `root`, or None without git or outside a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _command(root: Path) -> str:
    """The command line with paths cut down to what a reader can use elsewhere."""
    if "ipykernel" in sys.modules and "ipykernel_launcher" in Path(sys.argv[0]).name:
        return "in a notebook"
    program, *arguments = sys.argv
    path = Path(program)
    shown = str(path.relative_to(root)) if path.is_relative_to(root) else path.name
    return shlex.join([shown, *(argument.replace(f"{root}{os.sep}", "") for argument in arguments)])


def _machine() -> str:
    """Operating system, architecture and processor model."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model
    return " ".join(part for part in (platform.system(), platform.machine(), model) if part)


def _versions() -> dict[str, str]:
    """Versions of the packages that change numbers, read from their metadata without importing them."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
