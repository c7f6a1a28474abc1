"""Choosing the next token of every row of a batch.

Rows fall into three groups: greedy (one argmax), plain sampling (one softmax and one running sum), and sampling with
top-k or top-p (which must sort first). Within a group all rows are done at once. A row's choice depends on its own
logits, settings and draws only: each sequence brings its own random numbers, one per token, so a seed gives the same
choices alone and in any company.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from lab.engine.messages import SamplingParams


class Draws:
    """The random numbers of one sequence: uniform in [0, 1), the same for the same seed."""

    __slots__ = ("_random",)

    def __init__(self, seed: int | None) -> None:
        self._random = random.Random(seed)

    def next(self) -> float:
        """The draw for one token."""
        return self._random.random()


def choose(logits: Tensor, rows: Sequence[tuple[SamplingParams, Draws]]) -> Tensor:
    """The next token of each row: logits [B, V] -> ids [B] on the same device, no synchronisation."""
    ids = logits.argmax(-1)
    plain = [b for b, (params, _) in enumerate(rows) if params.temperature > 0 and not filters(params)]
    filtered = [b for b, (params, _) in enumerate(rows) if params.temperature > 0 and filters(params)]
    for group, pick in ((plain, _pick_plain), (filtered, _pick_filtered)):
        if group:
            where = torch.tensor(group, device=logits.device)
            ids[where] = pick(logits[where], [rows[b] for b in group])
    return ids


def filters(params: SamplingParams) -> bool:
    """True when top-k or top-p can remove a token."""
    return params.top_p < 1 or params.top_k > 0


def _pick_plain(logits: Tensor, rows: Sequence[tuple[SamplingParams, Draws]]) -> Tensor:
    return _invert(_probabilities(logits, rows), rows)


def _pick_filtered(logits: Tensor, rows: Sequence[tuple[SamplingParams, Draws]]) -> Tensor:
    """Keep the top_k best tokens, then of these the fewest that reach top_p; the best one always stays."""
    probabilities, order = _probabilities(logits, rows).sort(dim=-1, descending=True, stable=True)
    size = probabilities.shape[-1]
    top_k = _column([params.top_k or size for params, _ in rows], logits)
    top_p = _column([params.top_p for params, _ in rows], logits)
    rank = torch.arange(size, device=logits.device)
    probabilities = probabilities.masked_fill(rank >= top_k, 0.0)
    total = probabilities.sum(-1, keepdim=True)
    before = probabilities.cumsum(-1) - probabilities
    probabilities = probabilities.masked_fill(before >= top_p * total, 0.0)  # nothing is before the best
    return order.gather(-1, _invert(probabilities, rows)[:, None])[:, 0]


def _probabilities(logits: Tensor, rows: Sequence[tuple[SamplingParams, Draws]]) -> Tensor:
    """Softmax at each row's temperature, in float64: a running sum over the vocabulary must not lose the tail."""
    scaled = logits.double() / _column([params.temperature for params, _ in rows], logits)
    return scaled.softmax(-1)


def _invert(probabilities: Tensor, rows: Sequence[tuple[SamplingParams, Draws]]) -> Tensor:
    """Where each row's draw falls on the running sum of its (unnormalised) probabilities, [B, V] -> [B]."""
    sums = probabilities.cumsum(-1)
    target = _column([draws.next() for _, draws in rows], sums) * sums[:, -1:]
    return torch.searchsorted(sums, target, right=True)[:, 0].clamp_(max=sums.shape[-1] - 1)


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    """[B, 1] in float64 on the device of `like`."""
    return torch.tensor(values, dtype=torch.float64, device=like.device)[:, None]
