"""`lab grade`: a folder of submitted notebooks in, a table of grades out."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from lab.cli.params import FiniteFloat
from lab.course.errors import CourseError
from lab.course.grade import Grade, Settings, grade_folder, load_chapters, report
from lab.course.root import workbook_root
from lab.course.verdict import printable


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--chapter", help="Grade only this chapter, and call the others INVALID.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write OUT.csv and OUT.json.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), help="Submissions at once; the number of CPUs by default."
)
@click.option(
    "--timeout",
    type=FiniteFloat(4, 3600),
    default=60,
    show_default=True,
    help="Seconds per submission; one cell may take half of them.",
)
def command(
    folder: Path, chapter: str | None, out: Path | None, as_json: bool, jobs: int | None, timeout: float
) -> None:
    """Grade every notebook below FOLDER against our own copy of its chapter.

    Each ends in one of GRADED, NOT_ATTEMPTED, TAMPERED, TIMEOUT, KERNEL_DIED, INVALID, ENV_ERROR.

    Example: lab grade submissions/ --out grades
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: nothing is left behind
    began = time.monotonic()
    settings = Settings(timeout=timeout, jobs=jobs or os.cpu_count() or 1, only=chapter)
    try:
        if out is not None:
            report.prepare(out)
        root = workbook_root()
        chapters = load_chapters(root)
        if chapter is not None and chapter not in chapters:
            raise CourseError(
                f"no chapter {chapter!r} with exercises; there are {', '.join(chapters) or 'none'}"
            )
        grades = grade_folder(folder, root, chapters, settings, _progress())
    except CourseError as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        report.as_json(grades) if as_json else _table(grades, terminal=sys.stdout.isatty()), nl=not as_json
    )
    if out is not None:
        written = report.write(grades, out)
        click.echo(f"written: {written[0]}, {written[1]}", err=True)
    took = time.monotonic() - began
    click.echo(f"{len(grades)} submissions in {took:.1f} s, {took / len(grades):.2f} s each", err=True)


def _progress() -> Callable[[Grade], None] | None:
    """A line per finished submission on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        return None
    return lambda grade: click.echo(f"{grade.state.value:<13} {printable(grade.submission)}", err=True)


def _table(grades: list[Grade], *, terminal: bool) -> str:
    if not terminal:
        return report.as_table(grades)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in report.COLUMNS:
        table.add_column(column, overflow="fold")
    for row in report.rows(grades):
        table.add_row(*map(Text, row.values()))  # as text: it comes from students and may hold markup
    console = Console()
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip("\n")
