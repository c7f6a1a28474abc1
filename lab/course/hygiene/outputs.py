"""What a chapter has recorded: run in order, no errors, and checked cells whose output can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.course.hygiene.finding import Finding
from lab.course.notebook import CHECK_OUTPUT, WIDGET_VIEW, Cell, Notebook, output_texts, source, tags

MIN_CHECKED = 3
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")
# calls that make widgets: those of ipywidgets, and ours by the endings of their names
_WIDGET = re.compile(r"\binteract\w*\(|\bwidgets\.[A-Z]|\bOutput\(|\b[A-Z]\w*(Explorer|Panel)\(")


def check_outputs(notebook: Notebook) -> Iterator[Finding]:
    """Findings on the execution counts and the outputs."""
    cells = [
        (number, cell) for number, cell in enumerate(notebook["cells"], 1) if cell["cell_type"] == "code"
    ]
    if cells and all(cell.get("execution_count") is None for _, cell in cells):
        yield Finding("has not been run: lab notebooks refresh runs it and stores what it prints")
        return
    for expected, (number, cell) in enumerate(cells, 1):
        if cell.get("execution_count") != expected:
            yield Finding(
                f"execution count {cell.get('execution_count')}, not {expected}: run in order", number
            )
        yield from (Finding(problem, number) for problem in _check_cell(cell))
    checked = sum(CHECK_OUTPUT in tags(cell) for _, cell in cells)
    if checked < MIN_CHECKED:
        yield Finding(f"{checked} cells carry {CHECK_OUTPUT}; a chapter needs {MIN_CHECKED}")


def _check_cell(cell: Cell) -> Iterator[str]:
    raised = [output for output in cell["outputs"] if output["output_type"] == "error"]
    if "raises-exception" in tags(cell):
        if not raised:
            yield "declared exception did not occur"
        if CHECK_OUTPUT not in tags(cell):
            yield f"raises-exception needs {CHECK_OUTPUT}, else nbval accepts a cell that no longer raises"
    elif raised:
        yield f"an error is recorded: {raised[0].get('ename')}"
    if is_widget_cell(cell):
        yield from _check_widget_cell(cell)
    elif CHECK_OUTPUT in tags(cell):
        yield from _check_checked_cell(cell)


def is_widget_cell(cell: Cell) -> bool:
    """Whether the cell makes or shows a widget."""
    shown = any(WIDGET_VIEW in output.get("data", {}) for output in cell["outputs"])
    return shown or bool(_WIDGET.search(source(cell)))


def _check_widget_cell(cell: Cell) -> Iterator[str]:
    if CHECK_OUTPUT in tags(cell):
        yield "a widget cell is checked: compute the value in a cell of its own and check that"
    if any(output["output_type"] == "stream" for output in cell["outputs"]) or "print(" in source(cell):
        yield "a widget cell prints: front ends keep that text in widget state, where nbval cannot see it"


def _check_checked_cell(cell: Cell) -> Iterator[str]:
    if not cell["outputs"]:
        yield "a checked cell without output checks nothing"
    for output in cell["outputs"]:
        if output.get("name") == "stderr":
            yield "a checked cell writes to stderr, which differs between versions"
        if any(mime.startswith("image/") for mime in output.get("data", {})):
            yield "a checked cell shows a picture: nbval does not compare it"
    if any(_ADDRESS.search(text) for text in output_texts(cell)):
        yield "a memory address in a checked output"
