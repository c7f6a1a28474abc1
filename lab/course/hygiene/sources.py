"""What the source of a cell must not hold: nbval markers, calls that cannot work here, paths of one machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from IPython.core.inputtransformer2 import TransformerManager

from lab.course.hygiene.finding import Finding
from lab.course.notebook import Cell, Notebook, output_texts, source
from lab.evidence.root import PACKAGE

# nbval reads markers line by line, so that one inside a string literal counts too, while a
# misspelt one is ignored without a word: in chapters there are tags only
_MARKER = re.compile(r"^\s*#+.*\b(nbval|pytest_validate)", re.IGNORECASE | re.MULTILINE)
# folders of one machine: the usual ones, and the very one that this checkout lies in
_PATH = re.compile(
    r"(?<![\w.:/<-])"
    rf"(/(?:home|root|Users|tmp|mnt|var/folders)/[\w.~-]|[A-Z]:\\\w|{re.escape(str(PACKAGE.parent))}/)"
)
_CALLS = {
    "asyncio.run": "a notebook's loop is already running: use await",
    "input": "nbval and the grader have nobody to ask",
    "exit": "it ends the kernel",
    "quit": "it ends the kernel",
    "os._exit": "it ends the kernel",
}


def check_sources(notebook: Notebook) -> Iterator[Finding]:
    """Findings on the source and the recorded text of each cell."""
    for number, cell in enumerate(notebook["cells"], 1):
        yield from (Finding(problem, number) for problem in _check_cell(cell))


def _check_cell(cell: Cell) -> Iterator[str]:
    text = source(cell)
    for where, found in (("source", text), *(("output", piece) for piece in output_texts(cell))):
        match = _PATH.search(found)
        if match:
            yield f"absolute path in the {where}: {found[match.start() : match.start() + 40].splitlines()[0]}"
    if cell["cell_type"] != "code":
        return
    if not text.strip():
        yield "empty code cell"
    if _MARKER.search(text):
        yield "an nbval marker in a comment or a string: use tags"
    tree = parse(text)
    if tree is None:
        yield "does not parse"
    else:
        yield from _check_calls(tree)


def parse(text: str) -> ast.AST | None:
    """The syntax tree of a cell with magics and top-level await, or None if it has none."""
    try:
        plain = TransformerManager().transform_cell(text)  # type: ignore[no-untyped-call]
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree: ast.AST = compile(plain, "<cell>", "exec", flags, dont_inherit=True)
        return tree
    except (SyntaxError, ValueError):
        return None


def _check_calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in _CALLS:
            yield f"{name}(): {_CALLS[name]}"
        for keyword in node.keywords:
            if keyword.arg == "port" and isinstance(keyword.value, ast.Constant) and keyword.value.value:
                yield f"fixed port {ast.unparse(keyword.value)}: use port 0, two notebooks may run at once"
