"""`lab model`: train, sample or export the tiny LM."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lab.cli.params import FiniteFloat

if TYPE_CHECKING:
    from lab.model.training import TrainSettings

NAMES = click.Choice(["lab-1m", "lab-100k"])
SEED = click.IntRange(-(2**63), 2**63 - 1)  # what the generators of torch take


class Folder(click.Path):
    """A folder to write to. An empty name, as of an unset shell variable, is not the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """:raises click.BadParameter: when it is empty, or a file."""
        if value == "":
            self.fail("the name of the folder is empty.", param, ctx)
        return super().convert(value, param, ctx)


class Text(click.types.StringParamType):
    """A text that can be written as UTF-8: an argument may be any bytes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """:raises click.BadParameter: when it cannot."""
        text = str(super().convert(value, param, ctx))
        try:
            text.encode()
        except UnicodeEncodeError as error:
            self.fail(f"it is not UTF-8 at character {error.start}.", param, ctx)
        return text


@click.group()
def command() -> None:
    """Train, sample or export the tiny LM.

    Example: lab model sample --chat "Why did r4812 end as drain?"
    """


@command.command()
@click.option("--name", type=NAMES, default="lab-1m", show_default=True, help="Which model to train.")
@click.option("--out", type=Folder(), help="Folder [default: build/models/NAME].")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Seed of corpus, weights and order.")
@click.option("--steps", type=click.IntRange(1), help="Fewer steps for a try [default: as shipped].")
@click.option(
    "--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Threads of torch."
)
@click.option("--record", is_flag=True, help="Sample the result and record the run as evidence.")
def train(name: str, out: Path | None, seed: int, steps: int | None, threads: int, record: bool) -> None:
    """Train a model from a seed and save it in the layout of Hugging Face.

    Example: lab model train --name lab-1m
    """
    from lab.model import checkpoint, training

    settings = replace(training.SHIPPED[name], seed=seed, threads=threads)
    if steps is not None:
        settings = replace(settings, steps=steps)
    folder = out or Path("build", "models", name)
    with _writing(folder):
        _make(folder)  # before the long run, not after it
    with _progress(settings) as on_step:
        result = training.train(settings, on_step)
    with _writing(folder):
        checkpoint.save(folder, result.transformer, result.tokenizer)
    click.echo(
        f"held_out_loss={result.held_out_loss:.4f} cpu_seconds={result.cpu_seconds:.0f} saved={folder}"
    )
    if record:
        from lab.model.training_evidence import record_training

        click.echo(f"recorded {record_training(name, folder, settings, result)}")


@command.command()
@click.option("--name", default="lab-1m", show_default=True, help="Checkpoint to use.")
@click.option("--prompt", type=Text(), help="Text to continue; without it the model starts from nothing.")
@click.option("--chat", type=Text(), help="A user's message to answer.")
@click.option("--max-tokens", type=click.IntRange(1, 1000), default=200, show_default=True)
@click.option("--temperature", type=FiniteFloat(0, 2), default=0.7, show_default=True, help="0 is greedy.")
@click.option("--count", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of texts.")
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a text.")
def sample(
    name: str,
    prompt: str | None,
    chat: str | None,
    max_tokens: int,
    temperature: float,
    count: int,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    """Write text with a checkpoint.

    Example: lab model sample --chat "Is the old proxy in Oslo ready?" --count 3
    """
    if prompt is not None and chat is not None:
        raise click.UsageError("give --prompt or --chat, not both")
    from lab.model.checkpoint import load
    from lab.model.errors import ModelError
    from lab.model.generate import generate

    try:
        model = load(name, device)
        tokens = model.tokenizer.encode(prompt or "")
        if chat is not None:
            tokens = model.tokenizer.chat([{"role": "user", "content": chat}])
        answers = generate(model, [tokens] * count, max_tokens, temperature, seed)
    except ModelError as error:
        raise click.ClickException(str(error)) from error
    for answer in answers:
        text = model.tokenizer.decode(answer)
        click.echo(json.dumps({"tokens": len(answer), "text": text}, ensure_ascii=False) if as_json else text)


@command.command()
@click.option("--name", default="lab-1m", show_default=True, help="Checkpoint to use.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
@click.option(
    "--context", type=click.IntRange(1, 1000), default=128, show_default=True, help="Cached positions."
)
@click.option("--repeats", type=click.IntRange(1), default=15, show_default=True)
@click.option("--record", is_flag=True, help="Record the times as evidence.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def steps(name: str, device: str, context: int, repeats: int, record: bool, as_json: bool) -> None:
    """Time single steps: prefill by chunk length, decode by batch size, on one thread.

    Example: lab model steps --device cpu --repeats 15
    """
    import torch

    from lab.evidence import record as record_evidence
    from lab.model.checkpoint import load, resolve_device
    from lab.model.errors import ModelError
    from lab.model.step_claims import claims
    from lab.model.step_times import measure

    torch.set_num_threads(1)
    try:
        place = resolve_device(device)
        prefill, decode = measure(load(name, device), context, repeats)
    except ModelError as error:
        raise click.ClickException(str(error)) from error
    setting = {"model": name, "device": place.type, "context": context, "threads": 1}
    inputs = {"prefill": prefill, "decode": decode, "setting": setting}
    found = claims(prefill, decode, setting)
    if record:
        title = f"Times of prefill and decode steps of {name} on {place.type}"
        path = f"07_a_tiny_lm/steps_{place.type}.json"
        recipe, command_line = (
            "lab.model.step_claims:claims",
            f"lab model steps --device {place.type} --record",
        )
        record_evidence(
            path, kind="measured", title=title, recipe=recipe, inputs=inputs, command=command_line
        )
    for key, value in found.items():
        if not as_json:
            click.echo(f"{key} {value}")
    if as_json:
        click.echo(json.dumps(found))


@command.command()
@click.argument("folder", type=Folder())
@click.option("--name", default="lab-1m", show_default=True, help="Checkpoint to copy.")
def export(folder: Path, name: str) -> None:
    """Copy a checkpoint to FOLDER, from where transformers can load it.

    Example: lab model export exported --name lab-100k
    """
    from lab.model import checkpoint

    if name not in checkpoint.available():
        raise click.ClickException(
            f"there is no checkpoint {name!r}; there are {', '.join(checkpoint.available())}"
        )
    with _writing(folder):
        _make(folder)
        for file in checkpoint.FILES:
            shutil.copyfile(checkpoint.WEIGHTS / name / file, folder / file)
    click.echo(f"copied {len(checkpoint.FILES)} files to {folder}")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What the system says against writing to a folder, in one line."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"cannot write to {folder}: {error.strerror}") from error


def _make(folder: Path) -> None:
    """Makes a folder that takes a file."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def _progress(settings: TrainSettings) -> Iterator[Callable[[int, float], None]]:
    """A bar with the loss on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda step, loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("making the corpus", total=settings.steps)
        yield lambda step, loss: bar.update(task, completed=step + 1, description=f"loss {loss:.3f}")
