"""`lab bench server`: tokens served over SSE against the engine alone, and against another server.

A real `lab serve` and an engine process of its own take turns at the same job: all streams at once, from the prompts
to the last token, with the same slots, credits and sampling. Their order changes from pair to pair. Each waits idle
while the other works.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

import click

from lab.bench import server_report
from lab.bench.served import CAPACITY, MAX_LEN, served
from lab.bench.streams import Endpoint, Run, StreamFailed, run_streams
from lab.core.errors import LabError
from lab.engine.config import EngineConfig
from lab.engine.host import start_process
from lab.engine.messages import Command, Credit, Delta, Done, Event, SamplingParams, Submit
from lab.evidence import EvidenceError, record

RECIPE = "lab.bench.server_report:summarise"
EVIDENCE = "10_streaming_over_sse/bench_server.json"
_TOPIC = "Operator: the queue grows and readers wait. Server: "  # said again until the prompt is long enough


class Encoder(Protocol):
    """Text to tokens."""

    def encode(self, text: str) -> list[int]: ...


def prompt_texts(streams: int) -> list[str]:
    """Prompts of different lengths, as in real traffic: the text itself once for the first, up to four times."""
    return [_TOPIC * (1 + 3 * n // streams) + f"Report {n}:" for n in range(streams)]


class ServedSide:
    """Streams from a server over HTTP."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._endpoint = endpoint
        self._model = model

    def run(self, prompts: Sequence[str], steps: int) -> Run:
        """All prompts at once; `steps` tokens for each.

        :raises StreamFailed: when one is not served to its end.
        """
        common = {
            "model": self._model,
            "max_tokens": steps,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return run_streams(self._endpoint, [{**common, "prompt": prompt} for prompt in prompts], steps)


class EngineSide:
    """The same job, given straight to an engine process by a reader that keeps up."""

    def __init__(self, config: EngineConfig, encoder: Encoder) -> None:
        """:raises LabError: when the engine does not come up."""
        self._encoder = encoder
        self._changed = threading.Condition()
        self._first: dict[str, float] = {}
        self._texts: dict[str, list[str]] = {}
        self._ended = 0
        self._tokens = 0
        self._last = 0.0
        self._host = start_process(config, self._on_events, lambda code: None)

    def run(self, prompts: Sequence[str], steps: int) -> Run:
        """As `ServedSide.run`.

        :raises StreamFailed: when the engine gives another number of tokens, or none in time.
        """
        self._first, self._texts, self._ended, self._tokens = {}, {}, 0, 0
        params = SamplingParams(max_tokens=steps, temperature=0.0, ignore_eos=True)
        began = time.perf_counter()
        submits = [
            Submit(f"r{n}", tuple(self._encoder.encode(prompt)), params, CAPACITY)
            for n, prompt in enumerate(prompts)
        ]
        self._host.post(submits)
        with self._changed:
            ended = self._changed.wait_for(lambda: self._ended == len(prompts), timeout=300)
        if not ended or self._tokens != len(prompts) * steps:
            raise StreamFailed(f"the engine gave {self._tokens} tokens for {len(prompts)} streams of {steps}")
        names = [submit.attempt_id for submit in submits]
        return Run(
            self._last - began,
            [self._first[name] - began for name in names],
            ["".join(self._texts[name]) for name in names],
        )

    def close(self) -> None:
        """Stop the engine."""
        self._host.close()

    def _on_events(self, events: list[Event]) -> None:
        """Called by the reader thread: every event is read and its credit goes back."""
        now = time.perf_counter()
        credits: list[Command] = []
        for event in events:
            if isinstance(event, Delta):
                credits.append(Credit(event.attempt_id, 1))
                if event.text:
                    self._first.setdefault(event.attempt_id, now)
                self._texts.setdefault(event.attempt_id, []).append(event.text)
            elif isinstance(event, Done):
                with self._changed:
                    self._ended += 1
                    self._tokens += event.generated - event.trimmed
                    self._last = now
                    self._changed.notify()
        self._host.post(credits)


def measure(
    sides: dict[str, Any], streams: int, steps: int, pairs: int, tick: Callable[[], None]
) -> dict[str, dict[str, list[float]]]:
    """Samples of each side for each pair; the sides take turns, the first to begin being another each time.

    :raises StreamFailed: as the sides do.
    """
    prompts = prompt_texts(streams)
    samples: dict[str, dict[str, list[float]]] = {name: {"seconds": [], "ttft": []} for name in sides}
    for pair in range(pairs + 1):
        order = list(sides) if pair % 2 else list(reversed(sides))
        for name in order:
            run = sides[name].run(prompts, steps)
            if pair:  # the first one warms up
                samples[name]["seconds"].append(round(run.seconds, 6))
                samples[name]["ttft"].extend(round(first, 6) for first in run.ttft)
        tick()
    return samples


def _other_server(url: str) -> tuple[ServedSide, str]:
    endpoint = Endpoint.of(url)
    try:
        model = str(endpoint.get("/v1/models")["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as error:
        raise StreamFailed(f"{url} names no model under /v1/models") from error
    return ServedSide(endpoint, model), model


@click.command(name="server")
@click.option("--model", default="lab-1m", show_default=True, help="Checkpoint to serve.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or auto.")
@click.option("--streams", default=(1, 8, 32), multiple=True, type=click.IntRange(1, 256), show_default=True)
@click.option(
    "--steps", default=128, show_default=True, type=click.IntRange(2, 800), help="Tokens per stream."
)
@click.option(
    "--pairs", default=15, show_default=True, type=click.IntRange(1), help="Pairs; under 15: unknown."
)
@click.option(
    "--against", "url", metavar="URL", help="Another OpenAI-compatible server that knows ignore_eos."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--record", "as_evidence", is_flag=True, help=f"Write the samples to evidence/{EVIDENCE}.")
def command(
    model: str,
    device: str,
    streams: tuple[int, ...],
    steps: int,
    pairs: int,
    url: str | None,
    as_json: bool,
    as_evidence: bool,
) -> None:
    """Tokens served over SSE against the engine alone, and the time to the first one.

    Example: lab bench server --streams 8 --pairs 15 --against http://127.0.0.1:8001
    """
    counts = sorted(set(streams))
    try:
        with ExitStack() as stack:
            sides, other = _sides(stack, model, device, counts[-1], url)
            bar = stack.enter_context(
                click.progressbar(
                    length=len(counts) * (pairs + 1),
                    label="bench server",
                    file=sys.stderr,
                    hidden=not sys.stderr.isatty(),
                )
            )
            runs = {str(n): measure(sides, n, steps, pairs, lambda: bar.update(1)) for n in counts}
        samples: dict[str, Any] = {"model": model, "steps": steps, "runs": runs, "against": other}
        if as_evidence:
            title = "Tokens/s served over SSE against the engine alone, and the time to the first token"
            said = " ".join(["lab", *sys.argv[1:]])
            record(EVIDENCE, kind="measured", title=title, recipe=RECIPE, inputs=samples, command=said)
    except (LabError, StreamFailed, EvidenceError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    report = server_report.summarise(**samples)
    click.echo(json.dumps(report, indent=2) if as_json else "\n".join(server_report.lines(report)))


def _sides(
    stack: ExitStack, model: str, device: str, slots: int, url: str | None
) -> tuple[dict[str, Any], str | None]:
    """All sides, running; they end with the stack."""
    from lab.server.app import load_tokenizer

    encoder = load_tokenizer(model)  # first: an unknown model is told at once
    server = ServedSide(stack.enter_context(served(model, device, slots)), model)
    config = EngineConfig(model=model, device=device, slots=slots, max_len=MAX_LEN)
    engine = EngineSide(config, encoder)
    stack.callback(engine.close)
    if url is None:
        return {"server": server, "engine": engine}, None
    other, name = _other_server(url)
    return {"server": server, "engine": engine, "against": other}, name
