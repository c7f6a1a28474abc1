"""`lab bench engine`: the engine loop against the ragged loop, and the time from a cancel to its free slot.

Both sides run in this process, on one thread, taking turns every few steps, so that both meet the same machine. The engine side
does all that it does in service: credits for every event, text, events, statistics. A reader that keeps up returns
each credit in the next step.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import click
import torch

from lab.bench import engine_report
from lab.bench.ragged import RaggedLoop, ragged_prompts
from lab.engine.config import EngineConfig
from lab.engine.detokenize import Vocabulary
from lab.engine.host import start_thread
from lab.engine.loop import EngineLoop
from lab.engine.mailbox import LocalMailbox
from lab.engine.messages import Abort, Aborted, Credit, Delta, Event, SamplingParams, Started, Stepped, Submit
from lab.engine.model_runner import ModelRunner
from lab.evidence import EvidenceError, record
from lab.model.checkpoint import Model, load
from lab.model.errors import ModelError
from lab.model.kv_cache import DenseCache

CAPACITY = 16
BLOCK = 16  # steps of one side before the other has its turn
CANCELS = 120
RECIPE = "lab.bench.engine_report:summarise"
EVIDENCE = "07_a_tiny_lm/bench_engine.json"


class EngineSide:
    """An engine loop with `rows` greedy requests in the middle of their decode."""

    def __init__(
        self, model: Model, vocabulary: Vocabulary, prompts: list[tuple[int, ...]], steps: int
    ) -> None:
        rows, longest = len(prompts), max(map(len, prompts)) + steps + 2
        runner = ModelRunner(model, rows, longest)
        self._mailbox = LocalMailbox()
        # one prefill for all, so that every row starts its decode in the same step, as on the other side
        self._loop = EngineLoop(runner, vocabulary, self._mailbox, prefill_chunk=sum(map(len, prompts)))
        params = SamplingParams(max_tokens=steps + 2, temperature=0.0, ignore_eos=True)
        self._mailbox.put([Submit(f"r{n}", prompt, params, CAPACITY) for n, prompt in enumerate(prompts)])
        self._credits = {f"r{n}": Credit(f"r{n}", 1) for n in range(rows)}
        self.decoded = 0
        self._return_credits(self._loop.step())

    def run(self, steps: int) -> float:
        """`steps` steps with every row in the batch; seconds taken."""
        began = time.perf_counter()
        for _ in range(steps):
            self._return_credits(self._loop.step())
        return time.perf_counter() - began

    def _return_credits(self, events: list[Event]) -> None:
        """The reader: everything that came is read, and its credit is back before the next step."""
        back = self._credits
        self._mailbox.put([back[event.attempt_id] for event in events if type(event) is Delta])
        last = events[-1]
        if isinstance(last, Stepped):
            self.decoded += last.stats.batch


def measure_decode(
    model: Model, rows: int, steps: int, pairs: int, tick: Callable[[], None]
) -> dict[str, list[float]]:
    """Seconds of both sides for each pair.

    :raises RuntimeError: when the engine did not decode every row in every step: then nothing was compared.
    """
    vocabulary = Vocabulary.of(model.tokenizer, model.config.vocab_size)
    prompts = ragged_prompts(rows, model.config.vocab_size)
    weight = next(model.transformer.parameters())
    longest = max(map(len, prompts)) + steps + 2
    cache = DenseCache(model.config, rows, longest, weight.dtype, weight.device)
    seconds: dict[str, list[float]] = {"engine": [], "ragged": []}
    for _ in range(pairs + 1):
        engine = EngineSide(model, vocabulary, prompts, steps)
        ragged = RaggedLoop(model, cache, prompts)
        gc.collect()
        taken = {"engine": 0.0, "ragged": 0.0}
        for block in range(0, steps, BLOCK):
            turn = [("engine", engine.run), ("ragged", ragged.run)]
            for name, run in turn if block // BLOCK % 2 else reversed(turn):
                taken[name] += run(min(BLOCK, steps - block))
        if engine.decoded != rows * steps:
            raise RuntimeError(f"the engine decoded {engine.decoded} tokens for {rows} rows in {steps} steps")
        for name, total in taken.items():
            seconds[name].append(total)
        tick()
    return {name: samples[1:] for name, samples in seconds.items()}  # the first pair warms up


class CancelProbe:
    """Collects what an engine thread reports while requests are cancelled at random moments."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._started: set[str] = set()
        self._aborted: dict[str, tuple[float, int]] = {}
        self.step_seconds: list[float] = []

    def on_events(self, events: list[Event]) -> None:
        """Called by the engine's thread."""
        with self._changed:
            for event in events:
                if isinstance(event, Started):
                    self._started.add(event.attempt_id)
                elif isinstance(event, Aborted):
                    self._aborted[event.attempt_id] = (event.at, len(self.step_seconds) + 1)
                elif isinstance(event, Stepped):
                    self.step_seconds.append(event.stats.seconds)
            self._changed.notify_all()

    def wait_started(self, attempt_id: str) -> None:
        """Block until the attempt holds a slot."""
        with self._changed:
            self._changed.wait_for(lambda: attempt_id in self._started, 30)

    def wait_aborted(self, attempt_id: str) -> tuple[float, int]:
        """When the slot was free, and the number of the step in which that happened."""
        with self._changed:
            self._changed.wait_for(lambda: attempt_id in self._aborted, 30)
            return self._aborted[attempt_id]


def measure_cancel(model: str, device: str, cancels: int, tick: Callable[[], None]) -> dict[str, Any]:
    """Aborts at random moments in a busy engine: eight streams decode, and a long prompt comes in again and again."""
    probe, draws = CancelProbe(), random.Random(1)
    host = start_thread(EngineConfig(model=model, device=device, slots=16), probe.on_events)
    params = SamplingParams(max_tokens=500, temperature=0.0, ignore_eos=True)
    seconds, steps = [], []
    try:
        for n in range(cancels):
            busy = [f"busy{n}.{k}" for k in range(8)]
            host.post([Submit(name, tuple(range(2, 34)), params) for name in busy])
            host.post([Submit(f"victim{n}", tuple(range(2, 502)), params)])
            probe.wait_started(f"victim{n}")
            time.sleep(draws.uniform(0, 0.03))  # where in its life the victim is hit: prefill or decode
            before, posted = len(probe.step_seconds), time.monotonic()
            host.post([Abort(f"victim{n}")])
            freed, after = probe.wait_aborted(f"victim{n}")
            seconds.append(freed - posted)
            steps.append(after - before)
            host.post([Abort(name) for name in busy])
            probe.wait_aborted(busy[-1])
            tick()
    finally:
        host.close()
    return {"seconds": seconds, "steps": steps, "longest_step": max(probe.step_seconds)}


@click.command(name="engine")
@click.option("--model", default="lab-1m", show_default=True, help="Checkpoint to run.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or auto.")
@click.option(
    "--requests", "rows", default=(1, 8, 32), multiple=True, type=click.IntRange(1, 256), show_default=True
)
@click.option(
    "--steps", default=128, show_default=True, type=click.IntRange(8, 800), help="Tokens per request."
)
@click.option(
    "--pairs", default=15, show_default=True, type=click.IntRange(1), help="Pairs; under 15: unknown."
)
@click.option(
    "--cancels", default=CANCELS, show_default=True, type=click.IntRange(1), help="Requests to cancel."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--record", "as_evidence", is_flag=True, help=f"Write the samples to evidence/{EVIDENCE}.")
def command(
    model: str,
    device: str,
    rows: tuple[int, ...],
    steps: int,
    pairs: int,
    cancels: int,
    as_json: bool,
    as_evidence: bool,
) -> None:
    """The engine loop against a plain torch loop of the same model, and how soon a cancelled request's slot is free.

    Example: lab bench engine --requests 8 --pairs 15
    """
    torch.set_num_threads(1)
    try:
        loaded = load(model, device=device)
        with click.progressbar(
            length=len(rows) * (pairs + 1) + cancels,
            label="bench engine",
            file=sys.stderr,
            hidden=not sys.stderr.isatty(),
        ) as bar:
            samples: dict[str, Any] = {
                "model": model,
                "steps": steps,
                "decode": {
                    str(n): measure_decode(loaded, n, steps, pairs, lambda: bar.update(1))
                    for n in sorted(set(rows))
                },
                "cancel": measure_cancel(model, device, cancels, lambda: bar.update(1)),
            }
        if as_evidence:
            title = "Decode tokens/s of the engine against a ragged loop, and cancel to free slot"
            record(EVIDENCE, kind="measured", title=title, recipe=RECIPE, inputs=samples)
    except (ModelError, EvidenceError) as error:
        raise click.ClickException(str(error)) from error
    report = engine_report.summarise(**samples)
    click.echo(json.dumps(report, indent=2) if as_json else "\n".join(engine_report.lines(report)))
