"""A notebook without what changes from run to run or from front end to front end."""

from __future__ import annotations

import copy
import re
from typing import Any

from lab.course.notebook import (
    CELL_KEYS,
    KERNELSPEC,
    LANGUAGE,
    NOTEBOOK_KEYS,
    WIDGET_VIEW,
    Cell,
    Notebook,
    joined,
    source,
)

_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")


def normalise(notebook: Notebook, chapter: str) -> Notebook:
    """A copy in the one form that is stored: sources and outputs as text, known metadata, no widget state."""
    clean = copy.deepcopy(notebook)
    metadata = {key: value for key, value in clean["metadata"].items() if key in NOTEBOOK_KEYS}
    metadata.update(kernelspec=KERNELSPEC, language_info=LANGUAGE, lab={"chapter": chapter})
    clean["metadata"] = metadata
    for cell in clean["cells"]:
        cell["metadata"] = {key: value for key, value in cell["metadata"].items() if key in CELL_KEYS}
        cell["source"] = source(cell).rstrip("\n").splitlines(keepends=True)
        if cell["cell_type"] == "code":
            cell["outputs"] = _outputs(cell)
    return clean


def _outputs(cell: Cell) -> list[dict[str, Any]]:
    """Streams of one name merged, as nbval does; widget views gone; text as lists of lines."""
    found: list[dict[str, Any]] = []
    streams: dict[str, dict[str, Any]] = {}
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            text = joined(output["text"])
            if output["name"] in streams:
                streams[output["name"]]["text"] += text
                continue
            streams[output["name"]] = output
            output["text"] = text
        elif "data" in output:
            output["data"] = _data(output["data"])
            if not output["data"]:
                continue
            output["metadata"] = {}
            if output["output_type"] == "execute_result":
                output["execution_count"] = cell["execution_count"]
        found.append(output)
    for output in streams.values():
        output["text"] = output["text"].splitlines(keepends=True)
    return found


def _data(data: dict[str, Any]) -> dict[str, Any]:
    """The MIME bundle without the widget view; a bundle that held little else is dropped."""
    if WIDGET_VIEW in data:
        data = {mime: value for mime, value in data.items() if mime not in (WIDGET_VIEW, "text/plain")}
    return {mime: _text(value) if mime.startswith("text/") else value for mime, value in data.items()}


def _text(value: str | list[str]) -> list[str]:
    return _ADDRESS.sub(" at 0x...", joined(value)).splitlines(keepends=True)
