"""`lab evidence`: record, verify and show the recorded results."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from lab.evidence import EvidenceError, load, verify
from lab.evidence import record as record_evidence
from lab.evidence.manifest import evidence_files
from lab.evidence.root import evidence_root


@click.group()
def command() -> None:
    """Recorded results with their provenance.

    Example: lab evidence verify
    """


@command.command("verify")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
def verify_command(as_json: bool) -> None:
    """Recompute every result and check every hash; one line per finding.

    Example: lab evidence verify
    """
    root = _root()
    findings = verify(root)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=1))
    else:
        for finding in findings:
            click.echo(str(finding))
        if not findings:
            click.echo(f"{len(evidence_files(root))} files verified")
    if findings:
        sys.exit(1)


@command.command("record")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--recipe", help="The function that gives the result, lab.module:function; for a new file.")
@click.option("--title", help="What the file shows; for a new file.")
@click.option(
    "--inputs", default="{}", show_default=True, help="The arguments of the recipe as a JSON object."
)
@click.option("--seed", type=int, help="The seed among the inputs, if there is one.")
def record_command(path: Path, recipe: str | None, title: str | None, inputs: str, seed: int | None) -> None:
    """Record exact evidence, or record it again. PATH is relative to the evidence folder.

    Measured evidence is made by the command that takes its samples; `lab evidence show` names it.

    Example: lab evidence record 01_one_slow_client/trace.json
    """
    command_line = f"lab evidence record {path}"
    try:
        if recipe is None:
            old = load(path)
            if old.kind == "measured":
                raise click.ClickException(
                    f"{path} is measured; take new samples: {old.provenance['command']}"
                )
            recipe, title, arguments, seed = old.recipe, old.title, old.inputs, old.provenance["seed"]
        elif title is None:
            raise click.UsageError("a new file needs --title as well as --recipe")
        else:
            arguments = _arguments(inputs)
        done = record_evidence(
            path, kind="exact", title=title, recipe=recipe, inputs=arguments, seed=seed, command=command_line
        )
    except EvidenceError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{path}: recorded, digest {done.digest[:12]}")


@command.command("show")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The whole file as JSON.")
def show_command(path: Path | None, as_json: bool) -> None:
    """List the evidence, or show one file: where it comes from and what it says.

    Example: lab evidence show 01_one_slow_client/trace.json
    """
    try:
        if path is not None:
            click.echo(_show_json(path) if as_json else _show(path))
            return
        root = _root()
        for file in evidence_files(root):
            name = file.relative_to(root).as_posix()
            click.echo(f"{name}  {load(file).title}" if file.suffix == ".json" else name)
    except EvidenceError as error:
        raise click.ClickException(str(error)) from error


def _show_json(path: Path) -> str:
    evidence = asdict(load(path))
    del evidence["path"]
    return json.dumps(evidence, ensure_ascii=False, indent=1)


def _show(path: Path) -> str:
    evidence = load(path)
    origin = evidence.provenance
    rows = [("title", evidence.title), ("kind", evidence.kind), ("recipe", evidence.recipe)]
    rows += [(name, _plain(value)) for name, value in origin.items()]
    rows.append(("digest", evidence.digest))
    if isinstance(evidence.result, dict):
        rows += [(f"result {name}", _plain(value)) for name, value in evidence.result.items()]
    else:
        rows.append(("result", _plain(evidence.result)))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _plain(value: Any) -> str:
    """A value on one line, cut where a list of samples would fill the screen."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else text[:157] + "..."


def _arguments(inputs: str) -> dict[str, Any]:
    try:
        arguments = json.loads(inputs)
    except ValueError as error:
        raise click.UsageError(f"--inputs is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise click.UsageError("--inputs must be a JSON object")
    return arguments


def _root() -> Path:
    try:
        return evidence_root()
    except EvidenceError as error:
        raise click.ClickException(str(error)) from error
