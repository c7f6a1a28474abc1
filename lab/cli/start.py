"""`lab start`: make or top up the working copy."""

from __future__ import annotations

from pathlib import Path

import click

from lab.course.errors import CourseError
from lab.course.root import workbook_root
from lab.course.working import default_folder, top_up


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path | None) -> None:
    """Copy the chapters into FOLDER (work/), where you answer them.

    Run it again at any time: it adds what is new and never overwrites what you wrote.

    Example: lab start
    """
    try:
        root = workbook_root()
        target = folder or default_folder(root)
        done = top_up(root, target)
    except CourseError as error:
        raise click.ClickException(str(error)) from error
    for copied in done:
        click.echo(f"{copied.path.name}: {copied.step}")
    click.echo(f"Your working copy: {target}")
