"""`lab bench`: one module of `lab.bench` per subcommand, imported only when that subcommand runs."""

from __future__ import annotations

import importlib

import click

BENCHES: dict[str, str] = {
    "engine": "The engine loop against a plain torch loop of the same model.",
    "server": "Tokens served over SSE against the engine alone.",
    "trace": "A sweep of traces on a grid against one simulation per cell.",
    "never-reader": "How far a server runs ahead of a client that reads nothing; always recorded.",
    "three-times": "Headers, first text and end of a stream; always recorded.",
}


class BenchGroup(click.Group):
    """A click group whose commands are `lab.bench.<name>.command`, a dash for an underscore."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(BENCHES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in BENCHES:
            return None
        module = f"lab.bench.{cmd_name.replace('-', '_')}"
        command = importlib.import_module(module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.command must be a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(BENCHES.items()))


@click.command(cls=BenchGroup)
def command() -> None:
    """Measure both sides of a claim in one run.

    A ratio comes from pairs of runs that take turns: its median with a 95 % interval, and "unknown" where that
    interval holds the target.

    Example: lab bench engine --pairs 15
    """
