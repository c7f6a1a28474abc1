"""The shape of a model: one frozen record, read from and written to Hugging Face's `config.json`.

Source of the field names: `LlamaConfig` of the transformers library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.model.errors import ModelError

_SAME_NAME = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rms_norm_eps",
    "bos_token_id",
    "eos_token_id",
)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of a Llama decoder with tied embeddings.

    :raises ModelError: when the sizes do not fit together.
    """

    vocab_size: int = 1024
    hidden_size: int = 128
    intermediate_size: int = 384
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    max_position_embeddings: int = 1024
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    bos_token_id: int = 0
    eos_token_id: int = 1

    def __post_init__(self) -> None:
        for name in _SAME_NAME[:7]:
            if getattr(self, name) < 1:
                raise ModelError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.hidden_size % self.num_attention_heads:
            raise ModelError("hidden_size must be a multiple of num_attention_heads")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ModelError("num_attention_heads must be a multiple of num_key_value_heads")
        if self.head_dim % 2:
            raise ModelError(f"rotary embeddings need an even head size, not {self.head_dim}")

    @property
    def head_dim(self) -> int:
        """Channels of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def queries_per_kv(self) -> int:
        """Query heads that share one key/value head (1 = no grouping)."""
        return self.num_attention_heads // self.num_key_value_heads

    @property
    def parameters(self) -> int:
        """Number of weights; the embedding counts once, since the LM head is the same matrix."""
        return self.vocab_size * self.hidden_size + self.num_hidden_layers * self._layer() + self.hidden_size

    def _layer(self) -> int:
        kv_width = self.num_key_value_heads * self.head_dim
        attention = 2 * self.hidden_size * (self.hidden_size + kv_width)
        return attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size

    def flops_per_token(self, context: int = 0) -> int:
        """Floating point operations of one decode step for one row, LM head included.

        Two per weight of every matrix, plus two matrix-vector products over `context` cached positions
        in every query head of every layer. Norms, rotations and the softmax are left out.
        """
        norms = (2 * self.num_hidden_layers + 1) * self.hidden_size
        attention = 4 * self.num_hidden_layers * self.hidden_size * context
        return 2 * (self.parameters - norms) + attention

    def kv_bytes_per_token(self, bytes_per_value: int = 4) -> int:
        """Bytes of key/value cache for one position: two vectors per KV head per layer."""
        values = 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim
        return values * bytes_per_value

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ModelConfig:
        """Read a `config.json` mapping.

        :raises ModelError: on a field that is missing or an architecture other than Llama with tied embeddings.
        """
        if fields.get("model_type") != "llama" or not fields.get("tie_word_embeddings"):
            raise ModelError("config.json must describe a llama model with tied word embeddings")
        try:
            rope_theta = float(fields["rope_parameters"]["rope_theta"])
            return cls(**{name: fields[name] for name in _SAME_NAME}, rope_theta=rope_theta)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"config.json lacks or garbles the field {error}") from error

    def to_json(self) -> dict[str, Any]:
        """The mapping that transformers reads as a `LlamaConfig`."""
        shared = {name: getattr(self, name) for name in _SAME_NAME}
        return shared | {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "mlp_bias": False,
            "initializer_range": 0.02,
            "pretraining_tp": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": True,
            "use_cache": True,
            "dtype": "float32",
        }


LAB_1M = ModelConfig()
LAB_100K = ModelConfig(hidden_size=48, intermediate_size=88, num_hidden_layers=3)
