"""The `lab` command: one module per subcommand, imported only when that subcommand runs.

`lab --help` must answer at once, so the help lines live here and not in the modules,
some of which import torch.
"""

from __future__ import annotations

import importlib
import sys

import click

from lab import __version__

# name -> one line of help; the command object is `command` in the module lab.cli.<name>
COMMANDS: dict[str, str] = {
    "doctor": "Check this machine and this checkout; say how to fix what is missing.",
    "start": "Make (or top up) the working copy in which a learner answers.",
    "notebook": "Open JupyterLab on a chapter of the working copy.",
    "serve": "Serve the tiny LM over an OpenAI-compatible SSE API.",
    "model": "Train, sample or export the tiny LM.",
    "evidence": "Record, verify or show the recorded results.",
    "notebooks": "Run the chapters again, or check that they are in order.",
    "grade": "Grade a folder of submitted notebooks.",
    "bench": "Measure both sides of a claim in one run.",
}


class LazyGroup(click.Group):
    """A click group that imports a subcommand only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"lab.cli.{cmd_name}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"lab.cli.{cmd_name}.command must be a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lab")
def group() -> None:
    """The Serving Reliability Workbook: learn, serve, measure, grade.

    Example: lab serve --port 8000
    """


def main() -> None:
    """Entry point: bad input is one clear line and a non-zero exit code, never a traceback."""
    try:
        group.main(prog_name="lab", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        click.echo("lab: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
