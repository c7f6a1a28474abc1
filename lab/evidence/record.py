"""Recording and loading one piece of evidence.

The result is always what the recipe gives for the inputs: `record` runs it, so no result is ever
written by hand. `exact` evidence has settings as inputs; `measured` evidence has the raw samples as
inputs, and its result holds the claims that the recipe computes from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lab.evidence import recipe as recipes
from lab.evidence.errors import EvidenceError
from lab.evidence.files import digest, plain, pretty, sha256_file, write_atomically
from lab.evidence.manifest import NAME, read_manifest, update_manifest
from lab.evidence.provenance import FIELDS, provenance
from lab.evidence.root import evidence_root

SCHEMA = 1
Kind = Literal["exact", "measured"]
MEMBERS = ("schema", "kind", "title", "recipe", "inputs", "result", "provenance", "digest")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One evidence file, read or just recorded."""

    path: Path
    kind: Kind
    title: str
    recipe: str
    inputs: dict[str, Any]
    result: Any
    provenance: dict[str, Any]
    digest: str

    def recompute(self) -> Any:
        """What the recipe gives for the inputs today; equal to `result` unless code or file changed.

        :raises EvidenceError: the recipe cannot be run
        """
        return recipes.run(self.recipe, self.inputs)


def record(
    path: str | Path,
    *,
    kind: Kind,
    title: str,
    recipe: str,
    inputs: Mapping[str, Any],
    seed: int | None = None,
    command: str | None = None,
) -> Evidence:
    """Run `recipe` on `inputs`, write the evidence file, and set its line in the manifest.

    A relative path is taken from the evidence folder: "01_one_slow_client/trace.json".

    :raises EvidenceError: bad kind, path, recipe or inputs
    """
    root, target = _locate(path)
    if kind not in get_args(Kind):
        raise EvidenceError(f"kind must be exact or measured, not {kind!r}")
    if target.suffix != ".json" or not title.strip():
        raise EvidenceError("evidence needs a title and a file name that ends in .json")
    try:
        samples = plain(dict(inputs))
    except (TypeError, ValueError) as error:
        raise EvidenceError(f"inputs cannot be written as JSON: {error}") from error
    content = {
        "schema": SCHEMA,
        "kind": kind,
        "title": title,
        "recipe": recipe,
        "inputs": samples,
        "result": recipes.run(recipe, samples),
        "provenance": provenance(root.parent, seed=seed, command=command),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, pretty({**content, "digest": digest(content)}))
    update_manifest(root, target)
    return parse(target)


def load(path: str | Path) -> Evidence:
    """Read an evidence file, refusing one whose digest or manifest line does not fit.

    :raises EvidenceError: missing, malformed, edited, or not in the manifest
    """
    root, target = _locate(path)
    evidence = parse(target)
    name = target.relative_to(root).as_posix()
    if read_manifest(root).get(name) != sha256_file(target):
        raise EvidenceError(f"{name} does not fit its line in {NAME}: restore it, or record it again")
    return evidence


def parse(target: Path) -> Evidence:
    """Read an evidence file and check its form and digest, without the manifest.

    :raises EvidenceError: missing, malformed or edited
    """
    try:
        content = json.loads(target.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvidenceError(f"{target.name} does not exist") from error
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{target.name} is not JSON: {error}") from error
    problem = _malformed(content)
    if problem:
        raise EvidenceError(f"{target.name}: {problem}")
    stated = content.pop("digest")
    if digest(content) != stated:
        raise EvidenceError(f"{target.name} was edited: its digest does not fit its content")
    del content["schema"]
    return Evidence(path=target, digest=stated, **content)


def _malformed(content: object) -> str | None:
    """What is wrong with the form of a parsed file, or None."""
    if not isinstance(content, dict):
        return "not a JSON object"
    if set(content) != set(MEMBERS):
        return f"members must be {', '.join(MEMBERS)}"
    if content["schema"] != SCHEMA:
        return f"schema {content['schema']!r} is not {SCHEMA}"
    if content["kind"] not in get_args(Kind):
        return f"kind {content['kind']!r} is neither exact nor measured"
    if not isinstance(content["recipe"], str) or not isinstance(content["inputs"], dict):
        return "recipe must be a string and inputs an object"
    if not isinstance(content["provenance"], dict) or set(content["provenance"]) != set(FIELDS):
        return f"provenance must hold {', '.join(FIELDS)}"
    return None


def _locate(path: str | Path) -> tuple[Path, Path]:
    """The evidence root and the file, for a path that is absolute or relative to that root.

    An absolute path belongs to the nearest folder above it that is called `evidence`.
    """
    given = Path(path)
    if not given.is_absolute():
        root = evidence_root()
        parts = given.parts[1:] if given.parts[:1] == ("evidence",) else given.parts
        target = root.joinpath(*parts)
    else:
        target = given
        above = [folder for folder in given.parents if folder.name == "evidence"]
        if not above:
            raise EvidenceError(f"{given} does not lie in an evidence folder")
        root = above[0]
    if ".." in target.parts or not target.is_relative_to(root) or target == root:
        raise EvidenceError(f"{path} leaves the evidence folder")
    return root, target
