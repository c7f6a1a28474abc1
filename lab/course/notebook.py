"""Reading and writing notebooks as plain JSON data, and the few questions that everything here asks of a cell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.course.errors import CourseError

Notebook = dict[str, Any]
Cell = dict[str, Any]

CHECK_OUTPUT = "nbval-check-output"
KEEP = "lab-keep"
# the metadata that a stored chapter may have, and the kernel that it names
NOTEBOOK_KEYS = {"kernelspec", "language_info", "lab"}
CELL_KEYS = {"tags", "lab", "editable", "deletable", "jupyter"}
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class InvalidNotebook(CourseError):
    """The file is not a notebook that we can read; the message says why."""


def read(path: Path) -> Notebook:
    """The notebook at `path`, always decoded as UTF-8.

    :raises InvalidNotebook: no file, unreadable, not JSON, or not a version 4 notebook
    """
    if not path.is_file():
        raise InvalidNotebook("not a file")
    try:
        notebook = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidNotebook(f"not a notebook: {error}") from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or notebook.get("nbformat") != 4:
        raise InvalidNotebook("not a notebook of format 4")
    if not isinstance(notebook.get("metadata", {}), dict):
        raise InvalidNotebook("the notebook's metadata is not an object")
    if not all(_is_cell(cell) for cell in cells):
        raise InvalidNotebook("a cell lacks its type, source or metadata, or its id is not text")
    if not all(_is_text(source(cell)) for cell in cells):
        raise InvalidNotebook("a source holds half a character, which no file can")
    return notebook  # type: ignore[no-any-return]


def dumps(notebook: Notebook) -> str:
    """The text of a notebook file: the same layout that Jupyter writes, so that diffs stay small."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def source(cell: Cell) -> str:
    """The text of a cell; the format allows a list of lines as well."""
    text = cell["source"]
    return text if isinstance(text, str) else "".join(text)


def tags(cell: Cell) -> list[str]:
    """The tags of a cell; anything but a list of strings counts as none (the hygiene check reports it)."""
    found = cell["metadata"].get("tags", [])
    return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []


def code_cells(notebook: Notebook) -> list[Cell]:
    """The code cells in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def exercise_of(cell: Cell) -> tuple[str, str] | None:
    """(exercise id, role) from the metadata of an answer or check cell, else None."""
    mark = cell["metadata"].get("lab")
    if not isinstance(mark, dict):
        return None
    exercise, role = mark.get("exercise"), mark.get("role")
    return (exercise, role) if isinstance(exercise, str) and isinstance(role, str) else None


def chapter_of(notebook: Notebook) -> str | None:
    """The chapter number in the notebook's own metadata, "01", else None."""
    metadata = notebook.get("metadata")
    mark = metadata.get("lab") if isinstance(metadata, dict) else None
    chapter = mark.get("chapter") if isinstance(mark, dict) else None
    return chapter if isinstance(chapter, str) else None


def output_texts(cell: Cell) -> Iterator[str]:
    """Every piece of text among the outputs of a cell: streams, results, errors."""
    for output in cell.get("outputs", []):
        if output.get("output_type") == "stream":
            yield joined(output.get("text", ""))
        elif output.get("output_type") == "error":
            yield f"{output.get('ename')}: {output.get('evalue')}\n" + "\n".join(output.get("traceback", []))
        else:
            for mime, data in output.get("data", {}).items():
                if mime.startswith("text/") or mime == "image/svg+xml":
                    yield joined(data)


def stdout(cell: Cell) -> str:
    """What the cell printed."""
    outputs = [output for output in cell.get("outputs", []) if output.get("name") == "stdout"]
    return "".join(joined(output.get("text", "")) for output in outputs)


def joined(text: str | list[str]) -> str:
    """Multi-line text of the format, which may be a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def _is_text(text: str) -> bool:
    """JSON may name one half of a surrogate pair, which is not a character."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("metadata"), dict):
        return False
    text = cell.get("source")
    if isinstance(text, list):
        text = "".join(text) if all(isinstance(line, str) for line in text) else None
    outputs = cell.get("outputs", [])
    return (
        isinstance(text, str)
        and isinstance(cell.get("id", ""), str)
        and cell.get("cell_type") in ("code", "markdown", "raw")
        and isinstance(outputs, list)
        and all(isinstance(output, dict) for output in outputs)
    )
