"""Attention over a `DenseCache`: one chunk of a prompt, or one new token of many rows.

Both write this step's keys and values first and then read everything up to each row's own position. Shapes as in
`Workspace`: R rows, K key/value heads, G query heads for each, hd channels a head; L is the length that is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from lab.model.kv_cache import DenseCache
from lab.model.workspace import Workspace


class PrefillAttention:
    """R neighbouring positions of one slot, from `start` on; called once per layer."""

    def __init__(self, space: Workspace, cache: DenseCache, slot: int, start: int) -> None:
        end = start + space.rows
        self._keys = cache.keys[:, slot, :, :end]  # [layers, K, L, hd]
        self._values = cache.values[:, slot, :, :end]
        self._new = slice(start, end)
        self._mask = cache.mask(torch.arange(start, end, device=cache.keys.device), end)
        self._query = space.query.view(space.rows, -1, *space.query.shape[1:]).permute(
            1, 2, 0, 3
        )  # [K, G, R, hd]
        self._key = space.key.view(space.rows, -1, space.key.shape[-1]).transpose(0, 1)  # [K, R, hd]
        self._value = space.value.view(space.rows, -1, space.value.shape[-1]).transpose(0, 1)
        self._mixed = space.mixed_heads.view(space.rows, -1, *space.query.shape[1:])  # [R, K, G, hd]

    def __call__(self, layer: int) -> None:
        keys, values = self._keys[layer], self._values[layer]
        keys[:, self._new] = self._key
        values[:, self._new] = self._value
        mixed = functional.scaled_dot_product_attention(
            self._query, keys[:, None], values[:, None], self._mask, scale=1.0, enable_gqa=True
        )
        self._mixed.copy_(mixed.permute(2, 0, 1, 3))


class DecodeAttention:
    """One new position in each of R rows, read up to the longest of them; what lies past a row's end is masked.

    Rows that are a run of neighbouring slots, in order, are read where they lie; others are gathered first.
    """

    def __init__(
        self, space: Workspace, cache: DenseCache, positions: Sequence[int], slots: Sequence[int]
    ) -> None:
        heads, length = space.heads, max(positions) + 1
        where = np.repeat(np.array(positions), heads)
        rows = np.repeat(np.array(slots) * heads, heads) + np.tile(np.arange(heads), space.rows)
        index = torch.from_numpy(np.stack((where, rows, rows * cache.max_len + where))).to(cache.keys.device)
        self._rows, self._cells = index[1], index[2]
        self._cache = cache
        self._space = space
        self._mask = cache.mask(index[0], length).unsqueeze(1)  # [R*K, 1, L]
        self._scores = torch.empty(*space.query.shape[:2], length, dtype=space.x.dtype, device=space.x.device)
        first = slots[0]
        self._in_place = list(slots) == list(range(first, first + space.rows))
        run = slice(first * heads, (first + space.rows) * heads) if self._in_place else slice(None)
        self._keys = cache.key_rows[:, run, :length].unbind(0)  # per layer [R*K or all, L, hd]
        self._values = cache.value_rows[:, run, :length].unbind(0)

    def __call__(self, layer: int) -> None:
        space, cache = self._space, self._cache
        cache.key_cells[layer].index_copy_(0, self._cells, space.key)
        cache.value_cells[layer].index_copy_(0, self._cells, space.value)
        keys, values = self._keys[layer], self._values[layer]
        if not self._in_place:
            keys, values = keys.index_select(0, self._rows), values.index_select(0, self._rows)
        torch.baddbmm(self._mask, space.query, keys.transpose(1, 2), out=self._scores)
        torch.softmax(self._scores, -1, out=self._scores)
        torch.bmm(self._scores, values, out=space.mixed_heads)
