"""`lab notebooks`: run the chapters again, check that they are in order, test them under nbval."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from lab.cli.params import FiniteFloat
from lab.course.errors import CourseError
from lab.course.root import chapter_paths, workbook_root


@click.group()
def command() -> None:
    """Keep the chapters in order: refresh, check, test.

    Example: lab notebooks check
    """


@command.command()
@click.argument("notebooks", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--timeout", type=FiniteFloat(min=1), default=120, show_default=True, help="Seconds per cell.")
def refresh(notebooks: tuple[Path, ...], timeout: float) -> None:
    """Run chapters from top to bottom and store what they print.

    Example: lab notebooks refresh chapters/01_one_slow_client.ipynb
    """
    from lab.course.refresh import refresh as run

    root = _root()
    for path in notebooks or _chapters(root):
        try:
            changed = run(path.resolve(), root, timeout=timeout, progress=_progress(path.name))
        except CourseError as error:
            raise click.ClickException(f"{path}: {error}") from error
        click.echo(f"{path.name}: {'changed' if changed else 'unchanged'}")


@command.command()
@click.argument("notebooks", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
def check(notebooks: tuple[Path, ...], as_json: bool) -> None:
    """Check form, metadata, recorded outputs and exercises; one line per finding.

    Example: lab notebooks check chapters/01_one_slow_client.ipynb
    """
    from lab.course.hygiene import check_notebook

    found = {path.name: check_notebook(path.resolve()) for path in notebooks or _chapters(_root())}
    if as_json:
        rows = [
            {"notebook": name, "cell": finding.cell, "problem": finding.problem}
            for name, findings in found.items()
            for finding in findings
        ]
        click.echo(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        for name, findings in found.items():
            for finding in findings:
                click.echo(f"{name}: {finding}")
    if any(found.values()):
        sys.exit(1)


@command.command()
@click.argument("notebooks", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-n", "--jobs", type=click.IntRange(min=1), help="Notebooks at once; the number of CPUs, at most 4."
)
@click.option("--timeout", type=FiniteFloat(min=1), default=60, show_default=True, help="Seconds per cell.")
def test(notebooks: tuple[Path, ...], jobs: int | None, timeout: float) -> None:
    """Run chapters under nbval against their recorded outputs and the evidence.

    Example: lab notebooks test -n 2
    """
    from lab.course.nbval import run_nbval

    root = _root()
    targets = [path.resolve() for path in notebooks] or _chapters(root)
    jobs = jobs or min(4, os.cpu_count() or 1)
    sys.exit(run_nbval(targets, root, cell_timeout=timeout, jobs=min(jobs, len(targets))).returncode)


def _root() -> Path:
    try:
        return workbook_root()
    except CourseError as error:
        raise click.ClickException(str(error)) from error


def _chapters(root: Path) -> list[Path]:
    found = chapter_paths(root)
    if not found:
        raise click.ClickException(f"no chapters in {root / 'chapters'}")
    return found


def _progress(name: str) -> Callable[[int, int, str], None] | None:
    """A line per cell on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int, first_line: str) -> None:
        click.echo(f"{name}: cell {done} of {total}: {first_line[:60]}", err=True)

    return show
