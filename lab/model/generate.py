"""The shortest loop that writes text: prefill every prompt, then decode all rows until each has ended.

An engine does the same with arrivals, limits and leaving clients; this one is for samples and for reading.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lab.model.checkpoint import Model
from lab.model.errors import ModelError
from lab.model.kv_cache import DenseCache

COLDEST = 1e-3  # a temperature below divides logits beyond what a float can hold


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    ignore_eos: bool = False,
) -> list[list[int]]:
    """Tokens after each prompt, the closing `eos` not among them; temperature 0 takes the best token each time.

    :raises ModelError: when a prompt is empty, or with its answer does not fit the model's context, or when the
        temperature is neither 0 nor a number from 0.001 on.
    """
    if temperature != 0 and not COLDEST <= temperature < math.inf:
        raise ModelError(
            f"the temperature must be 0, which is greedy, or at least {COLDEST}, not {temperature}"
        )
    weight = model.transformer.model.embed_tokens.weight
    longest = max(len(prompt) for prompt in prompts) + max_tokens
    context = model.config.max_position_embeddings
    if longest > context:
        raise ModelError(
            f"a prompt of {longest - max_tokens} tokens and an answer of {max_tokens} do not fit "
            f"the context of {context} tokens"
        )
    cache = DenseCache(model.config, len(prompts), longest, weight.dtype, weight.device)
    random_ = torch.Generator(device=weight.device).manual_seed(seed)
    logits = torch.stack(
        [model.transformer.prefill(prompt, slot, 0, cache) for slot, prompt in enumerate(prompts)]
    )
    answers: list[list[int]] = [[] for _ in prompts]
    rows = list(range(len(prompts)))
    for _ in range(max_tokens):
        tokens = _pick(logits, temperature, random_).tolist()
        alive = [i for i, token in enumerate(tokens) if ignore_eos or token != model.tokenizer.eos_id]
        rows = [rows[i] for i in alive]
        if not rows:
            break
        for row, i in zip(rows, alive, strict=True):
            answers[row].append(tokens[i])
        positions = [len(prompts[row]) + len(answers[row]) - 1 for row in rows]
        logits = model.transformer.decode([tokens[i] for i in alive], positions, rows, cache)
    return answers


def _pick(logits: Tensor, temperature: float, random_: torch.Generator) -> Tensor:
    """The next token of each row, [B, V] -> [B]."""
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial((logits.float() / temperature).softmax(-1), 1, generator=random_)[:, 0]
