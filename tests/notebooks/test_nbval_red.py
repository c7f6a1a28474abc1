"""What must turn CI red does: a changed verdict, a changed figure, a dead kernel. On copies of the workbook."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.course.nbval import nbval_command, run_nbval
from lab.course.notebook import CHECK_OUTPUT, code_cells, dumps, exercise_of, read, stdout, tags
from lab.course.root import chapter_paths, workbook_root
from lab.evidence import verify, write_manifest
from lab.evidence.files import digest, pretty

ROOT = workbook_root()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what the chapters read."""
    for name in ("chapters", "evidence", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    return tmp_path


def failed_cells(paths: list[Path], root: Path, **options: Any) -> tuple[int, list[str]]:
    """pytest's exit status and the cells that failed, by nbval's own numbers."""
    done = run_nbval(paths, root, extra=("-q", "--color=no", "-rf", "--tb=no"), capture=True, **options)
    lines = (line for line in done.stdout.splitlines() if line.startswith("FAILED"))
    return done.returncode, [line.partition("::")[2].partition(" - ")[0] for line in lines]


def first_figure(value: Any) -> Iterator[Callable[[], None]]:
    """Ways to change one number or word somewhere inside `value`, in place."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in list(entries):
        if isinstance(inner, int | float) and not isinstance(inner, bool):
            yield lambda key=key, inner=inner: value.__setitem__(key, inner + 1)
        elif isinstance(inner, str):
            yield lambda key=key, inner=inner: value.__setitem__(key, inner + "X")
        yield from first_figure(inner)


def forge(path: Path) -> None:
    """Change one figure of the result and make every hash fit again."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change = next(first_figure(content["result"]), None)
    if change is None:
        pytest.fail(f"{path.name} holds no figure")
    change()
    content["digest"] = digest({key: value for key, value in content.items() if key != "digest"})
    path.write_text(pretty(content), encoding="utf-8")


def test_the_recorded_evidence_is_in_order() -> None:
    assert [str(finding) for finding in verify(ROOT / "evidence")] == []


def test_a_changed_figure_in_any_evidence_file_is_red_although_all_hashes_fit(copy: Path) -> None:
    evidence = copy / "evidence"
    files = sorted(evidence.rglob("*.json"))
    for path in files:
        forge(path)
    write_manifest(evidence)
    found = [finding for finding in verify(evidence) if "the result is not what" in finding.problem]
    assert [finding.path for finding in found] == [path.relative_to(evidence).as_posix() for path in files]


def test_a_changed_verdict_in_a_chapter_is_red(copy: Path) -> None:
    path = chapter_paths(copy)[0]
    notebook = read(path)
    cells = code_cells(notebook)
    number = next(n for n, cell in enumerate(cells) if exercise_of(cell) and CHECK_OUTPUT in tags(cell))
    cells[number]["outputs"][0]["text"] = [stdout(cells[number]).replace("not attempted", "passed")]
    path.write_text(dumps(notebook), encoding="utf-8")
    status, failed = failed_cells([path], copy)
    assert (status, failed) == (1, [f"Cell {number}"])


def test_a_chapter_that_reads_a_changed_figure_is_red_although_all_hashes_fit(copy: Path) -> None:
    path = chapter_paths(copy)[0]
    for evidence in sorted((copy / "evidence" / path.stem).glob("*.json")):
        forge(evidence)
    write_manifest(copy / "evidence")
    status, failed = failed_cells([path], copy)
    assert status == 1
    assert failed


def tiny(folder: Path, name: str, *sources: str) -> Path:
    """A notebook whose cells have run and print nothing."""
    cells = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "execution_count": number,
            "metadata": {"tags": [CHECK_OUTPUT]},
            "outputs": [],
            "source": text,
        }
        for number, text in enumerate(sources, 1)
    ]
    path = folder / name
    path.write_text(
        dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8"
    )
    return path


def test_F31_notebooks_may_run_side_by_side_and_cells_stay_in_order(tmp_path: Path) -> None:
    paths = [
        tiny(tmp_path, f"{name}.ipynb", "a = 1", "b = a + 1", "c = b + 1", "d = c + 1") for name in "xyz"
    ]
    command = nbval_command(paths, jobs=3)
    assert command[command.index("--dist") + 1] == "loadscope"
    assert "no:randomly" in command
    assert failed_cells(paths, ROOT, jobs=2) == (0, [])


def test_F13_a_dead_kernel_is_red_at_once_and_named(tmp_path: Path) -> None:
    path = tiny(tmp_path, "x.ipynb", "a = 1", "import os\nos._exit(0)", "b = 1")
    done = run_nbval([path], ROOT, cell_timeout=600, extra=("--color=no",), capture=True)
    assert done.returncode == 1
    assert "the kernel died while this cell ran" in done.stdout


def test_F14_and_F16_a_foreign_kernel_name_and_a_warning_are_green(tmp_path: Path) -> None:
    path = tiny(tmp_path, "x.ipynb", "a = 1")
    notebook = read(path)
    notebook["metadata"]["kernelspec"] = {"name": "conda-env-foo-py", "display_name": "foo"}
    notebook["cells"][0]["metadata"] = {}
    notebook["cells"][0]["source"] = "import warnings\nwarnings.warn('old', DeprecationWarning)"
    path.write_text(dumps(notebook), encoding="utf-8")
    assert failed_cells([path], ROOT) == (0, [])


def test_cheap_files_beside_a_notebook_change_nothing(tmp_path: Path) -> None:
    path = tiny(tmp_path, "x.ipynb", "assert False")
    swallow = (
        "import pytest\n@pytest.hookimpl\ndef pytest_runtest_makereport(item, call): call.excinfo = None\n"
    )
    (tmp_path / "conftest.py").write_text(swallow, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONOPTIMIZE", "1")  # would remove the assert
        assert failed_cells([path], ROOT) == (1, ["Cell 0"])


def test_cheap_no_sanitizer_hides_a_difference() -> None:
    """A rule without its space would be ignored in silence; we have no rules at all."""
    assert not any("sanitize" in argument for argument in nbval_command([Path("x.ipynb")]))
