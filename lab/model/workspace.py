"""Buffers for R rows of activations, with the views that the layers read and write, made once and used again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab.model.config import ModelConfig


class Workspace:
    """Activations of R rows: D width, K key/value heads, G query heads for each, hd channels a head, I hidden.

    The fused projection lays a row out as K groups of G query heads, one key head, one value head; so row and K merge
    into one batch dimension without a copy.
    """

    def __init__(self, config: ModelConfig, rows: int, like: Tensor) -> None:
        def buffer(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=like.dtype, device=like.device)

        heads, groups, head_dim = config.num_key_value_heads, config.queries_per_kv, config.head_dim
        self.rows, self.heads = rows, heads
        self.x = buffer(rows, config.hidden_size)
        self.normed = torch.empty_like(self.x)
        self.mixed = torch.empty_like(self.x)
        self.qkv = buffer(rows, heads * (groups + 2) * head_dim)
        self.gate_up = buffer(rows, 2 * config.intermediate_size)
        self.gate, self.up = self.gate_up.chunk(2, dim=-1)
        self.hidden = buffer(rows, config.intermediate_size)
        parts = self.qkv.view(rows * heads, groups + 2, head_dim)
        self.query = parts[:, :groups]  # [R*K, G, hd]
        self.key = parts[:, groups]  # [R*K, hd]
        self.value = parts[:, groups + 1]
        self.mixed_heads = self.mixed.view(rows * heads, groups, head_dim)
        self._turning = parts.view(rows, heads, groups + 2, head_dim)[:, :, :-1]
        half = like.dtype not in (torch.float32, torch.float64)
        self._pairs = None if half else torch.view_as_complex(_paired(self._turning))
        self._length = buffer(rows, 1)
        self._floor = torch.full_like(self._length[:1], math.sqrt(config.hidden_size * config.rms_norm_eps))

    def norm(self) -> None:
        """RMSNorm of `x` into `normed`, without gain and without the factor sqrt(width), which the weights hold.

        x / sqrt(|x|^2 + width * eps): the length of x, and a hypotenuse for the eps.
        """
        torch.linalg.vector_norm(self.x, dim=-1, keepdim=True, out=self._length)
        torch.hypot(self._length, self._floor, out=self._length)
        torch.div(self.x, self._length, out=self.normed)

    def rotate(self, turns: Tensor) -> None:
        """Turn the channel pairs of queries and keys in place; turns [R, 1, 1, hd / 2], complex."""
        if self._pairs is not None:
            torch.mul(self._pairs, turns, out=self._pairs)
        else:  # complex numbers of half precision do not exist: turn a float32 copy
            pairs = torch.view_as_complex(_paired(self._turning.float()))
            self._turning.copy_(torch.view_as_real(pairs * turns).flatten(-2))


def _paired(x: Tensor) -> Tensor:
    """[..., hd] -> [..., hd / 2, 2]."""
    return x.view(*x.shape[:-1], -1, 2)
