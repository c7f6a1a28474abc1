"""`lab notebook`: JupyterLab on a chapter of the working copy."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lab.course.errors import CourseError
from lab.course.jupyter import plan
from lab.course.root import workbook_root
from lab.course.working import default_folder, find_chapter, top_up


@click.command()
@click.argument("chapter", default="01")
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="The working copy; work/ by default."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Where to listen; 8888 or any free port by default."
)
@click.option("--no-browser", is_flag=True, help="Only print the URL.")
def command(chapter: str, folder: Path | None, port: int | None, no_browser: bool) -> None:
    """Open JupyterLab on CHAPTER of your working copy, which is made if it is not there.

    Example: lab notebook 01
    """
    try:
        root = workbook_root()
        target = (folder or default_folder(root)).resolve()
        top_up(root, target)
        launch = plan(root, find_chapter(target, chapter), port=port, browser=not no_browser)
    except CourseError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{launch.url}\nStop it with Ctrl-C.")
    os.execve(launch.command[0], launch.command, dict(launch.environment))
