"""The form of a chapter: the parts that every chapter has, links that lead somewhere, a clean start and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lab.course.hygiene.finding import Finding
from lab.course.notebook import Cell, Notebook, chapter_of, code_cells, source, stdout

# what a Markdown heading of the chapter must say; the words may stand anywhere in the heading
HEADINGS = {
    "claim": r"claim",
    "what you need and what is left out": r"need|left out",
    "the incident": r"incident|what happened|story",
    "predict": r"predict",
    "exercise": r"exercise",
    "your own run": r"your (own )?(run|turn|trace)|turn the|try it",
    "quiz": r"quiz",
    "real systems": r"real systems?|in practice",
    "summary": r"summary",
    "glossary": r"glossary|words",
}
_HEADING = re.compile(r"^#{1,4} +(.+?)\s*$", re.MULTILINE)
_MINUTES = re.compile(r"\b\d+\s+minutes\b", re.IGNORECASE)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)]*)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")


def check_chapter(notebook: Notebook, path: Path) -> Iterator[Finding]:
    """Findings on the chapter as a text that a learner reads from top to bottom."""
    yield from _check_name(notebook, path)
    prose = "\n".join(_prose(cell) for cell in notebook["cells"])
    headings = "\n".join(_HEADING.findall(prose))
    for part, pattern in HEADINGS.items():
        if not re.search(pattern, headings, re.IGNORECASE):
            yield Finding(f"no heading for: {part}")
    if not _MINUTES.search(prose):
        yield Finding("nothing says how many minutes the chapter takes")
    for number, cell in enumerate(notebook["cells"], 1):
        yield from (Finding(problem, number) for problem in _check_links(_prose(cell), path.parent))
    yield from _check_ends(code_cells(notebook))


def _prose(cell: Cell) -> str:
    """The Markdown of a cell without code."""
    if cell["cell_type"] != "markdown":
        return ""
    return _INLINE.sub("", _FENCE.sub("", source(cell)))


def _check_name(notebook: Notebook, path: Path) -> Iterator[Finding]:
    if not re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", path.name):
        yield Finding("the file name is not NN_slug.ipynb")
    if chapter_of(notebook) != path.name[:2]:
        yield Finding(f'notebook metadata must hold {{"lab": {{"chapter": "{path.name[:2]}"}}}}')
    first = notebook["cells"][0] if notebook["cells"] else None
    if first is None or not re.match(r"# +\S", _prose(first)):
        yield Finding("the first cell is not a Markdown title")


def _check_links(prose: str, folder: Path) -> Iterator[str]:
    for raw in _LINK.findall(prose):
        target = raw.partition(' "')[0].strip()
        parts = urlsplit(target)
        if not target or " " in target:
            yield f"malformed link: ({raw})"
        elif parts.scheme in ("http", "https"):
            if "." not in parts.netloc:
                yield f"link without a host: {target}"
        elif parts.scheme not in ("", "mailto", "attachment"):
            yield f"link with an odd scheme: {target}"
        elif parts.scheme == "" and parts.path and not (folder / unquote(parts.path)).exists():
            yield f"link to a file that does not exist: {target}"


def _check_ends(cells: list[Cell]) -> Iterator[Finding]:
    if not cells or "setup()" not in source(cells[0]) or "Setup complete" not in stdout(cells[0]):
        yield Finding('the first code cell must call setup() and have printed "Setup complete"')
    if not cells or source(cells[-1]).strip() != "leak_check()" or stdout(cells[-1]).strip() != "no leaks":
        yield Finding('the last code cell must be leak_check() and have printed "no leaks"')
