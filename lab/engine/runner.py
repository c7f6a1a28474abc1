"""What the loop needs from a model. The real one is `lab.engine.model_runner.ModelRunner`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Runner(Protocol):
    """A model with a KV cache of `slots` rows, `max_len` positions each."""

    @property
    def slots(self) -> int: ...

    @property
    def max_len(self) -> int: ...

    def prefill(self, tokens: Sequence[int], slot: int, start: int) -> Tensor:
        """Put `tokens` at positions start, start+1, ... of `slot`; logits [V] after the last."""
        ...

    def decode(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int]) -> Tensor:
        """One token for each of B rows, given in the order of their slots; logits [B, V], valid until the next call."""
        ...
