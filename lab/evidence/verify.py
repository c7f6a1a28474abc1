"""Verification of a whole evidence folder: nothing missing, nothing edited, every result recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.evidence.errors import EvidenceError
from lab.evidence.files import canonical, sha256_file
from lab.evidence.manifest import NAME, evidence_files, read_manifest
from lab.evidence.record import parse


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; `path` is relative to the evidence folder."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def verify(root: Path) -> list[Finding]:
    """Everything wrong below `root`, sorted by file. An empty list means: all in order."""
    try:
        manifest = read_manifest(root)
    except EvidenceError as error:
        return [Finding(NAME, str(error))]
    files = {path.relative_to(root).as_posix(): path for path in evidence_files(root)}
    findings = [Finding(name, f"listed in {NAME} but missing") for name in manifest if name not in files]
    for name, path in files.items():
        findings.extend(Finding(name, problem) for problem in _check_file(path, manifest.get(name)))
    return sorted(findings, key=lambda finding: finding.path)


def _check_file(path: Path, listed: str | None) -> Iterator[str]:
    if listed is None:
        yield f"not listed in {NAME}"
    elif listed != sha256_file(path):
        yield f"does not fit its hash in {NAME}"
    if path.suffix != ".json":
        return  # pictures and the like are pinned by their hash alone
    try:
        evidence = parse(path)
        today = evidence.recompute()
    except EvidenceError as error:
        yield str(error)
        return
    if canonical(today) != canonical(evidence.result):
        yield f"the result is not what {evidence.recipe} gives: {_difference(evidence.result, today, 'result')}"


def _difference(recorded: Any, today: Any, where: str) -> str:
    """The first place where two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(today, dict):
        for key in sorted({*recorded, *today}):
            if key not in recorded or key not in today:
                return f"{where}.{key} is only in the {'recording' if key in recorded else 'recomputation'}"
            if canonical(recorded[key]) != canonical(today[key]):
                return _difference(recorded[key], today[key], f"{where}.{key}")
    if isinstance(recorded, list) and isinstance(today, list) and len(recorded) == len(today):
        for index, (old, new) in enumerate(zip(recorded, today, strict=True)):
            if canonical(old) != canonical(new):
                return _difference(old, new, f"{where}[{index}]")
    return f"{where} recorded {_short(recorded)}, recomputed {_short(today)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
