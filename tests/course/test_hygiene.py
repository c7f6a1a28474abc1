"""What `lab notebooks check` finds: one test for each thing that must not ship."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.cli.notebooks import command
from lab.course.hygiene import check_notebook
from lab.evidence.root import PACKAGE

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def findings(workbook: Any) -> Callable[..., list[str]]:
    """findings(edit): what is found in the chapter after the edit, as text."""

    def find(edit: Edit, name: str = "99_tiny.ipynb") -> list[str]:
        notebook = copy.deepcopy(workbook.notebook)
        edit(notebook)
        path: Path = workbook.root / "chapters" / name
        path.write_text(json.dumps(notebook, ensure_ascii=False), encoding="utf-8")
        return [str(finding) for finding in check_notebook(path, workbook.chapters["99"].exercises)]

    return find


def source(number: int, text: str) -> Edit:
    """Replace the source of the cell with this number, counted from 1."""
    return lambda notebook: notebook["cells"][number - 1].update(source=text)


def update(number: int, **values: Any) -> Edit:
    return lambda notebook: notebook["cells"][number - 1].update(values)


def tag(number: int, *tags: str) -> Edit:
    return lambda notebook: notebook["cells"][number - 1]["metadata"].update(tags=list(tags))


def meta(**values: Any) -> Edit:
    return lambda notebook: notebook["metadata"].update(values)


def all_of(*edits: Edit) -> Edit:
    return lambda notebook: [edit(notebook) for edit in edits]


def printed(text: str, name: str = "stdout") -> list[dict[str, str]]:
    return [{"output_type": "stream", "name": name, "text": text}]


def shown(**data: str) -> list[dict[str, Any]]:
    mimes = {name.replace("__", "/").replace("_", "+"): value for name, value in data.items()}
    return [{"output_type": "display_data", "data": mimes, "metadata": {}}]


# the tiny chapter: 1 title, 2 setup, 3 answer 99-1, 4 check, 5 answer 99-2, 6 check, 7 leak check
def test_a_chapter_in_order_has_no_findings(findings: Any) -> None:
    assert findings(lambda _: None) == []


CASES: dict[str, tuple[Edit, str]] = {
    "a repeated cell id": (update(3, id="c1"), "cell id 'c1' occurs 2 times"),
    "not valid": (update(2, outputs=[{"output_type": "nonsense"}]), "not valid: "),
    "an old format": (lambda notebook: notebook.update(nbformat_minor=4), "not valid: "),
    "another kernel": (
        meta(kernelspec={"name": "conda-env-foo-py", "display_name": "foo"}),
        "kernelspec must be",
    ),
    "a pinned Python": (
        meta(language_info={"name": "python", "version": "3.11.7"}),
        "language_info pins a Python version",
    ),
    "stray metadata": (meta(colab={}), "stray notebook metadata: colab"),
    "widget state": (
        meta(widgets={"application/vnd.jupyter.widget-state+json": {"state": {}}}),
        "metadata.widgets holds volatile state",
    ),
    "stray cell metadata": (
        lambda notebook: notebook["cells"][2]["metadata"].update(collapsed=True),
        "cell 3: stray metadata: collapsed",
    ),
    "an unregistered tag": (tag(2, "nbval-check-outputs"), "cell 2: unregistered tags: nbval-check-outputs"),
    "half a mark": (
        lambda notebook: notebook["cells"][2]["metadata"].update(lab={"exercise": "99-1"}),
        'cell 3: metadata "lab" must hold',
    ),
    "another chapter's number": (meta(lab={"chapter": "98"}), '{"lab": {"chapter": "99"}}'),
    "a marker comment": (
        source(3, "# NBVAL_IGNORE_OUTPUT\ndef double(n): ..."),
        "cell 3: an nbval marker in a comment or a string",
    ),
    "a misspelt marker": (source(3, "# nbval-skip because slow\nx = 1"), "cell 3: an nbval marker"),
    "a path of one machine": (
        source(3, "open('/home/ann/x')"),
        "cell 3: absolute path in the source: /home/ann",
    ),
    "a path in an output": (
        update(2, outputs=printed(f"Setup complete\nin {PACKAGE}/x\n")),
        f"cell 2: absolute path in the output: {PACKAGE}"[:70],
    ),
    "an empty cell": (source(3, " \n"), "cell 3: empty code cell"),
    "a cell that does not parse": (source(3, "def double(:"), "cell 3: does not parse"),
    "asyncio.run": (source(3, "import asyncio\nasyncio.run(f())"), "cell 3: asyncio.run(): "),
    "input": (source(3, "n = input()"), "cell 3: input(): "),
    "a fixed port": (source(3, "serve(port=8000)"), "cell 3: fixed port 8000"),
    "run out of order": (update(3, execution_count=7), "cell 3: execution count 7, not 2"),
    "not run": (update(3, execution_count=None), "cell 3: execution count None, not 2"),
    "a recorded error": (
        update(3, outputs=[{"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}]),
        "cell 3: an error is recorded: ValueError",
    ),
    "too few checked cells": (all_of(tag(4), tag(6)), "2 cells carry nbval-check-output"),
    "a checked cell without output": (update(2, outputs=[]), "cell 2: a checked cell without output"),
    "stderr in a checked cell": (
        update(2, outputs=printed("old", "stderr")),
        "cell 2: a checked cell writes to stderr",
    ),
    "a picture in a checked cell": (
        update(2, outputs=shown(image__png="")),
        "cell 2: a checked cell shows a picture",
    ),
    "an address": (
        update(2, outputs=printed("<f at 0x7f52efe50210>")),
        "cell 2: a memory address in a checked output",
    ),
    "a missing part": (source(1, "# 99 Tiny\n"), "no heading for: glossary"),
    "no minutes": (source(1, "# 99 Tiny\n## Claim"), "nothing says how many minutes"),
    "no title": (source(1, "Tiny"), "the first cell is not a Markdown title"),
    "a dead link": (source(1, "# T\n[x](gone.md)"), "cell 1: link to a file that does not exist: gone.md"),
    "a malformed link": (source(1, "# T\n[x]()"), "cell 1: malformed link: ()"),
    "a link without host": (source(1, "# T\n[x](https://)"), "cell 1: link without a host"),
    "an odd link": (source(1, "# T\n[x](javascript:1)"), "cell 1: link with an odd scheme"),
    "no setup": (source(2, "import lab"), "the first code cell must call setup()"),
    "no leak check": (source(7, "1 + 1"), "the last code cell must be leak_check()"),
    "an exercise without its check": (
        lambda notebook: notebook["cells"].pop(3),
        "exercise 99-1 lacks its check cell",
    ),
    "an unknown exercise": (
        lambda notebook: notebook["cells"][2]["metadata"].update(lab={"exercise": "99-9", "role": "answer"}),
        "cell 3: unknown exercise or role: 99-9 answer",
    ),
    "an exercise twice": (
        lambda notebook: notebook["cells"][4]["metadata"].update(lab={"exercise": "99-1", "role": "answer"}),
        "cell 5: a second answer cell of exercise 99-1",
    ),
    "another stub": (source(3, "def double(n): ..."), "cell 3: the answer cell of 99-1 is not the stub"),
    "a checked answer": (tag(3, "nbval-check-output"), "cell 3: an answer cell must not be checked itself"),
    "an unchecked check": (tag(4), "cell 4: a check cell needs nbval-check-output"),
    "a check of another": (source(4, 'check("99-2")'), 'cell 4: the check cell does not call check("99-1")'),
    "a check above its answer": (
        lambda notebook: notebook["cells"].insert(1, notebook["cells"].pop(3)),
        "cell 2: the check of 99-1 stands above its answer cell",
    ),
    "a check that already passed": (
        update(4, outputs=printed("99-1 passed\n")),
        'cell 4: the recorded check is not "99-1 not attempted"',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_must_not_ship_is_found(findings: Any, case: str) -> None:
    edit, expected = CASES[case]
    found = findings(edit)
    assert any(expected in finding for finding in found), found


def test_a_chapter_that_was_never_run_says_so_once(findings: Any) -> None:
    def edit(notebook: dict[str, Any]) -> None:
        for cell in notebook["cells"][1:]:
            cell.update(execution_count=None, outputs=[])

    found = findings(edit)
    assert "has not been run: lab notebooks refresh runs it and stores what it prints" in found
    assert not any("execution count" in finding for finding in found)


def test_a_wrong_file_name_is_found(findings: Any) -> None:
    assert "the file name is not NN_slug.ipynb" in findings(lambda _: None, "99 Tiny.ipynb")


def test_links_code_and_magics_that_are_fine_are_left_alone(findings: Any) -> None:
    prose = "\n[a](https://example.org/home/x) [b](#part) `[c](gone)`\n```\n[d](gone)\n```\n"

    def edit(notebook: dict[str, Any]) -> None:
        notebook["cells"][0]["source"] = "".join(notebook["cells"][0]["source"]) + prose
        cell = {"cell_type": "code", "id": "x", "metadata": {}, "outputs": [], "execution_count": 6}
        cell["source"] = "%matplotlib inline\nawait something(port=0)\nurl = 'http://127.0.0.1/home/x'"
        notebook["cells"].insert(6, cell)
        notebook["cells"][7]["execution_count"] = 7

    assert findings(edit) == []


def test_F01_a_declared_exception_must_occur_and_be_compared(findings: Any) -> None:
    found = findings(tag(2, "raises-exception"))
    assert "cell 2: declared exception did not occur" in found
    assert any("nbval accepts a cell that no longer raises" in finding for finding in found)
    error = [{"output_type": "error", "ename": "ValueError", "evalue": "x", "traceback": []}]
    found = findings(all_of(update(2, outputs=error), tag(2, "raises-exception", "nbval-check-output")))
    assert not any("exception" in finding for finding in found)


def test_F28_a_solution_in_the_chapter_is_found(findings: Any) -> None:
    found = findings(source(1, "# T\n```\ndef double(n):\n    return 2 * n\n```"))
    assert "the solution of 99-1 stands in the chapter" in found


@pytest.mark.parametrize(
    "widget",
    [
        "import ipywidgets as widgets\nwith widgets.Output(): print(1)",
        "@interact(n=(0, 3))\ndef show(n): print(n)",
        "explorer = TraceExplorer()\nprint(explorer)",
    ],
)
def test_F32_a_widget_cell_prints_nothing_and_is_not_checked(findings: Any, widget: str) -> None:
    found = findings(all_of(source(2, widget), tag(2, "nbval-check-output")))
    assert any(finding.startswith("cell 2: a widget cell is checked") for finding in found)
    assert any(finding.startswith("cell 2: a widget cell prints") for finding in found)


def test_F34_widget_metadata_without_state_is_found(findings: Any) -> None:
    edit = meta(widgets={"application/vnd.jupyter.widget-state+json": {"version_major": 2}})
    assert "metadata.widgets without state breaks viewers" in findings(edit)


def test_cheap_a_marker_inside_a_string_is_found(findings: Any) -> None:
    text = 'TEXT = """\n# NBVAL_SKIP\n"""\ndef double(n):\n    raise NotImplementedError'
    assert "cell 3: an nbval marker in a comment or a string: use tags" in findings(source(3, text))


def test_cheap_tags_that_are_a_string_are_found(findings: Any) -> None:
    def edit(notebook: dict[str, Any]) -> None:
        notebook["cells"][1]["metadata"]["tags"] = "nbval-check-output"

    assert any("tags" in finding and "nbval-check-output" in finding for finding in findings(edit))


@pytest.mark.parametrize("text", ["{", "[]", '{"nbformat": 3}', '{"nbformat": 4, "cells": [{}]}', "\xff"])
def test_what_is_no_notebook_is_one_finding(workbook: Any, text: str) -> None:
    path = workbook.root / "chapters" / "99_tiny.ipynb"
    path.write_bytes(text.encode("latin-1"))
    assert len(check_notebook(path, ())) == 1


def test_the_command_is_silent_or_prints_one_line_per_finding(workbook: Any) -> None:
    done = CliRunner().invoke(command, ["check"])
    assert (done.exit_code, done.output) == (0, "")
    path = workbook.root / "chapters" / "99_tiny.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace('"c3"', '"c1"'), encoding="utf-8")
    done = CliRunner().invoke(command, ["check", str(path)])
    assert (done.exit_code, done.output) == (1, "99_tiny.ipynb: cell id 'c1' occurs 2 times\n")
    rows = json.loads(CliRunner().invoke(command, ["check", "--json"]).output)
    assert rows == [{"notebook": "99_tiny.ipynb", "cell": None, "problem": "cell id 'c1' occurs 2 times"}]
