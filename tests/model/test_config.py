"""Sizes add up, and survive a trip through config.json."""

from __future__ import annotations

import pytest

from lab.model.config import LAB_1M, LAB_100K, ModelConfig
from lab.model.errors import ModelError
from lab.model.transformer import Transformer


@pytest.mark.parametrize("config", [LAB_1M, LAB_100K])
def test_parameters_are_those_of_the_model(config: ModelConfig) -> None:
    assert sum(weight.numel() for weight in Transformer(config).parameters()) == config.parameters


def test_the_small_model_costs_a_tenth_of_the_large_one() -> None:
    assert 0.08 < LAB_100K.flops_per_token() / LAB_1M.flops_per_token() < 0.12


def test_cache_bytes_count_key_value_heads_only() -> None:
    assert LAB_1M.kv_bytes_per_token() == 2 * 4 * 2 * 32 * 4
    assert LAB_1M.kv_bytes_per_token(bytes_per_value=2) == 1024


def test_a_config_survives_json() -> None:
    config = ModelConfig(hidden_size=48, rope_theta=5e5, rms_norm_eps=1e-6)
    assert ModelConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden_size": 130},
        {"num_key_value_heads": 3},
        {"hidden_size": 12},
        {"num_hidden_layers": 0},
        {"vocab_size": -1},
    ],
)
def test_sizes_that_do_not_fit_are_an_error(sizes: dict[str, int]) -> None:
    with pytest.raises(ModelError):
        ModelConfig(**sizes)


@pytest.mark.parametrize(
    "change",
    [{"model_type": "gpt2"}, {"tie_word_embeddings": False}, {"rope_parameters": {}}, {"vocab_size": "x"}],
)
def test_another_architecture_is_an_error(change: dict[str, object]) -> None:
    with pytest.raises(ModelError):
        ModelConfig.from_json(LAB_1M.to_json() | change)
