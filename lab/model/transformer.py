"""A Llama decoder: RMSNorm, rotary embeddings, grouped-query attention, SwiGLU, tied embeddings.

Two ways through the same weights. `forward` is short and plainly right: it trains the model and is the reference in
the tests. `prefill` and `decode` work on a `DenseCache` with the weights of `lab.model.fused`; they are what an
engine calls. Parameter names are those of transformers' `LlamaForCausalLM`, so a checkpoint needs no mapping.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from lab.model.config import ModelConfig
from lab.model.fused import FusedModel
from lab.model.kv_cache import DenseCache
from lab.model.rotary import rotary_angles, rotate


class Attention(nn.Module):
    """Causal self-attention in which `queries_per_kv` query heads share a key/value head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, self.head_dim = config.hidden_size, config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, kv_width, bias=False)
        self.v_proj = nn.Linear(width, kv_width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """[B, T, width] -> [B, T, width]."""
        query, key, value = (
            projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(
            rotate(query, angles), rotate(key, angles), value, is_causal=True, enable_gqa=True
        )
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out


class FeedForward(nn.Module):
    """SwiGLU: a gate decides how much of each hidden channel passes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """Attention, then feed-forward, each on a normed copy and added back."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """[B, T, width] -> [B, T, width]."""
        x = x + self.self_attn(self.input_layernorm(x), angles)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Embedding, layers and last norm: everything but the LM head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class Transformer(nn.Module):
    """The model with its LM head, which is the embedding matrix again."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self._fused: FusedModel | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every position, from scratch: [B, T] -> [B, T, V]."""
        angles = rotary_angles(self.config, torch.arange(tokens.shape[1], device=tokens.device))
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, angles)
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)

    @property
    def fused(self) -> FusedModel:
        """The weights as `prefill` and `decode` use them, made at the first call and kept.

        Weights changed since? Call `train()` or `eval()`, and they are made again.
        """
        if self._fused is None:
            self._fused = FusedModel(self.config, self.state_dict())
        return self._fused

    def train(self, mode: bool = True) -> Transformer:
        """As in torch; the fused weights are dropped, because the parameters are about to change."""
        self._fused = None
        return super().train(mode)

    def prefill(self, tokens: Sequence[int], slot: int, start: int, cache: DenseCache) -> Tensor:
        """Write `tokens` at positions start, start+1, ... of `slot`; logits [V] after the last one.

        A prompt may come in chunks: each call continues where the last one ended.

        :raises ModelError: when there is no token, or the positions do not fit the cache.
        """
        return self.fused.prefill(tokens, slot, start, cache)

    def decode(
        self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int], cache: DenseCache
    ) -> Tensor:
        """One token for each of B rows of any lengths; logits [B, V].

        Row b puts `tokens[b]` at `positions[b]` of `slots[b]` and attends to everything up to it. Rows in slot order
        that fill a run of neighbouring slots are read in place; other rows are gathered first, which costs a copy.
        """
        return self.fused.decode(tokens, positions, slots, cache)
