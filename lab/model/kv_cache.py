"""The key/value cache with dense slots: one row of `max_len` positions for each running sequence.

`keys[layer, slot, head, position]` and `values[...]` hold one head vector each. A slot that is given to a new sequence
is not cleared: its owner writes a position before it reads it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lab.model.config import ModelConfig
from lab.model.errors import ModelError


class DenseCache:
    """Keys and values of `slots` sequences, `max_len` positions each, allocated at once.

    :raises ModelError: when `slots` is below 1 or `max_len` is outside 1..max_position_embeddings.
    """

    def __init__(
        self,
        config: ModelConfig,
        slots: int,
        max_len: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if slots < 1:
            raise ModelError(f"a cache needs at least one slot, not {slots}")
        if not 1 <= max_len <= config.max_position_embeddings:
            raise ModelError(f"max_len must lie in 1..{config.max_position_embeddings}, not {max_len}")
        self.slots = slots
        self.max_len = max_len
        shape = (config.num_hidden_layers, slots, config.num_key_value_heads, max_len, config.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        # the same memory by (slot, head) and by (slot, head, position): what decode reads and where it writes
        self.key_rows = self.keys.flatten(1, 2)
        self.value_rows = self.values.flatten(1, 2)
        self.key_cells = self.keys.flatten(1, 3).unbind(0)
        self.value_cells = self.values.flatten(1, 3).unbind(0)
        ends = torch.zeros(2 * max_len, dtype=dtype, device=device)
        ends[max_len:] = -torch.inf
        self._windows = ends.unfold(0, max_len, 1)

    def mask(self, positions: Tensor, length: int) -> Tensor:
        """What each position may see: [N] -> [N, length], 0 up to the position itself and -inf behind it.

        Every row is a window into one vector of zeros followed by -inf, so no square mask is ever stored.
        """
        return self._windows[:, :length].index_select(0, self.max_len - 1 - positions)

    @property
    def nbytes(self) -> int:
        """Bytes held, whether or not a slot is in use."""
        return self.keys.nbytes + self.values.nbytes

    def __repr__(self) -> str:
        return (
            f"DenseCache(slots={self.slots}, max_len={self.max_len}, {self.keys.dtype}, {self.nbytes} bytes)"
        )
