"""Times of single steps: prefill of chunks of several lengths, decode of batches of several sizes.

Sizes are measured in turn, one of each per repetition, so that a slow moment of the machine hits all of them. Every
time ends when the chosen token is known, which on a GPU waits for the step to be done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from lab.model.checkpoint import Model
from lab.model.errors import ModelError
from lab.model.kv_cache import DenseCache

CHUNKS = (1, 4, 16, 64, 256)
BATCHES = (1, 2, 4, 8, 16, 32)


def measure(
    model: Model,
    context: int = 128,
    repeats: int = 15,
    chunks: Sequence[int] = CHUNKS,
    batches: Sequence[int] = BATCHES,
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of each repetition: of a prefill of n tokens from position 0, and of a decode of n rows at `context`."""
    weight = model.transformer.model.embed_tokens.weight
    length = max(context + 1, *chunks)
    cache = DenseCache(model.config, max(batches), length, weight.dtype, weight.device)
    text = model.tokenizer.encode("7") * length
    for slot in range(max(batches)):
        model.transformer.prefill(text[:context], slot, 0, cache)

    def prefill(size: int) -> Tensor:
        return model.transformer.prefill(text[:size], 0, 0, cache)

    def decode(size: int) -> Tensor:
        return model.transformer.decode(text[:size], [context] * size, range(size), cache)

    return _times(prefill, chunks, repeats), _times(decode, batches, repeats)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """One greedy run of equal rows: seconds of the prefills together and of every decode step, and one row's tokens."""

    prompt_tokens: int
    batch: int
    prefill: float
    steps: tuple[float, ...]
    tokens: tuple[int, ...]


def time_run(model: Model, prompt: Sequence[int], new_tokens: int, batch: int) -> RunTimes:
    """Decode `new_tokens` tokens after `prompt` in `batch` rows at once, ends of text ignored.

    :raises ModelError: when prompt and answer do not fit the context, or a number is below 1.
    """
    if new_tokens < 1:
        raise ModelError(f"a run makes at least one token, not {new_tokens}")
    weight = model.transformer.model.embed_tokens.weight
    cache = DenseCache(model.config, batch, len(prompt) + new_tokens, weight.dtype, weight.device)
    began = time.perf_counter()
    for slot in range(batch):
        logits = model.transformer.prefill(prompt, slot, 0, cache)
    tokens = [int(logits.argmax())]
    prefill = time.perf_counter() - began
    steps = []
    while len(tokens) < new_tokens:
        began = time.perf_counter()
        position = len(prompt) + len(tokens) - 1
        rows = model.transformer.decode([tokens[-1]] * batch, [position] * batch, range(batch), cache)
        tokens.append(rows.argmax(-1).tolist()[0])
        steps.append(time.perf_counter() - began)
    return RunTimes(len(prompt), batch, prefill, tuple(steps), tuple(tokens))


def _times(step: Callable[[int], Tensor], sizes: Sequence[int], repeats: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {str(size): [] for size in sizes}
    for repeat in range(repeats + 1):
        for size in sizes:
            began = time.perf_counter()
            step(size).argmax(-1).tolist()
            if repeat:  # the first round warms up
                found[str(size)].append(time.perf_counter() - began)
    return found
