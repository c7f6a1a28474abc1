"""The baseline `ragged_loop`: decoding many rows with a plain torch loop, and nothing else.

The same model, the same dense cache, the same thread. No requests, no credits, no text, no events: what is left is
what no engine can save. Rows have different lengths, as in real traffic; a path for equal lengths would flatter both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from lab.model.checkpoint import Model
from lab.model.kv_cache import DenseCache

SPREAD = 64  # tokens between the shortest and the longest prompt of a batch
SHORTEST = 32


def ragged_prompts(rows: int, vocab_size: int) -> list[tuple[int, ...]]:
    """Prompts whose lengths are spread over `SPREAD` tokens; the same ones for both sides.

    Tokens 0 and 1 are left out: in every shipped model they are the special ones.
    """
    lengths = [SHORTEST + SPREAD * row // rows for row in range(rows)]
    return [
        tuple(2 + (97 * row + 31 * place) % (vocab_size - 2) for place in range(length))
        for row, length in enumerate(lengths)
    ]


class RaggedLoop:
    """Greedy decoding of `prompts`, one row a slot. Each prompt is already in the cache, with its first token chosen."""

    def __init__(self, model: Model, cache: DenseCache, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model.transformer
        self._cache = cache
        self._slots = list(range(len(prompts)))
        self._positions = [len(prompt) for prompt in prompts]
        self.tokens = [
            [int(self._model.prefill(prompt, slot, 0, cache).argmax())] for slot, prompt in enumerate(prompts)
        ]

    def run(self, steps: int) -> float:
        """Decode `steps` tokens for every row; seconds taken. The rows are in `tokens` afterwards."""
        newest, positions = [row[-1] for row in self.tokens], self._positions
        chosen = []
        began = time.perf_counter()
        for _ in range(steps):
            newest = self._model.decode(newest, positions, self._slots, self._cache).argmax(-1).tolist()
            positions = [position + 1 for position in positions]
            chosen.append(newest)
        seconds = time.perf_counter() - began
        self._positions = positions
        for row, tokens in enumerate(self.tokens):
            tokens.extend(step[row] for step in chosen)
        return seconds
