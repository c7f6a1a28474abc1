"""Rotary embeddings: position p turns channel pair i by the angle p / theta^(2i / head_dim).

Angles are computed in float32 whatever the model's dtype, because transformers does so and positions near 1,000 would
otherwise differ in the fourth digit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lab.model.config import ModelConfig


def rotary_angles(config: ModelConfig, positions: Tensor) -> Tensor:
    """Angle of each channel pair at each position, [T] -> [T, head_dim / 2], float32."""
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=positions.device)
    frequencies = 1.0 / config.rope_theta ** (pairs / config.head_dim)
    return positions[:, None].float() * frequencies


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn channel i of the first half together with channel i of the second half.

    :param x: [..., T, head_dim]
    :param angles: [T, head_dim / 2]
    """
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rotary_turns(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The same turns as complex numbers for all positions, [max_position_embeddings, head_dim / 2]."""
    angles = rotary_angles(config, torch.arange(config.max_position_embeddings, device=device))
    turns = torch.complex(angles.cos(), angles.sin())
    return turns.to(torch.complex128 if dtype == torch.float64 else torch.complex64)
