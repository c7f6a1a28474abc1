"""The form of a notebook file: valid, known kernel, stable metadata, registered tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from lab.course.hygiene.finding import Finding
from lab.course.notebook import (
    CELL_KEYS,
    CHECK_OUTPUT,
    KEEP,
    KERNELSPEC,
    NOTEBOOK_KEYS,
    Cell,
    Notebook,
    exercise_of,
)
from lab.course.quick_nbformat import nbformat

TAGS = {CHECK_OUTPUT, "nbval-ignore-output", "raises-exception", KEEP}


def check_form(notebook: Notebook) -> Iterator[Finding]:
    """Findings on the file as a whole, then on each cell's metadata."""
    errors = nbformat.validator.iter_validate(notebook)  # type: ignore[no-untyped-call]
    invalid = [_describe(error) for error in errors]
    if not invalid and notebook["nbformat_minor"] < 5:
        invalid.append(Finding("not valid: older than format 4.5, so that cells have no ids"))
    if invalid:
        yield from invalid
        return
    ids = Counter(cell["id"] for cell in notebook["cells"])
    yield from (Finding(f"cell id {name!r} occurs {count} times") for name, count in ids.items() if count > 1)
    yield from _check_metadata(notebook["metadata"])
    for number, cell in enumerate(notebook["cells"], 1):
        yield from (Finding(problem, number) for problem in _check_cell(cell))


def _describe(error: Any) -> Finding:
    """A finding for an error of the format's schema, with the place in the file."""
    where = ".".join(str(step) for step in getattr(error, "relative_path", ()))
    return Finding(f"not valid: {where}: {error.message.splitlines()[0][:200]}")


def _check_metadata(metadata: dict[str, Any]) -> Iterator[Finding]:
    if metadata.get("kernelspec") != KERNELSPEC:
        yield Finding(f"kernelspec must be {KERNELSPEC}, not {metadata.get('kernelspec')}")
    language = metadata.get("language_info", {})
    if language.get("name") != "python":
        yield Finding("language_info must name python")
    if "version" in language:
        yield Finding("language_info pins a Python version")
    if "widgets" in metadata:
        missing = not all(
            "state" in entry for entry in metadata["widgets"].values() if isinstance(entry, dict)
        )
        yield Finding(
            "metadata.widgets " + ("without state breaks viewers" if missing else "holds volatile state")
        )
    stray = set(metadata) - NOTEBOOK_KEYS - {"widgets"}
    if stray:
        yield Finding(f"stray notebook metadata: {', '.join(sorted(stray))}")


def _check_cell(cell: Cell) -> Iterator[str]:
    metadata = cell["metadata"]
    stray = set(metadata) - CELL_KEYS
    if stray:
        yield f"stray metadata: {', '.join(sorted(stray))}"
    found = metadata.get("tags", [])
    if not isinstance(found, list):
        yield f"tags must be a list, not {found!r}: nbval ignores anything else"
    else:
        unknown = [str(tag) for tag in found if tag not in TAGS]
        if unknown:
            yield f"unregistered tags: {', '.join(unknown)}"
    if "lab" in metadata and exercise_of(cell) is None:
        yield 'metadata "lab" must hold "exercise" and "role"'
