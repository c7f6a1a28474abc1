"""Prefill and decode give what the plain forward pass gives, whatever the batch, the chunks and the slots."""

from __future__ import annotations

import pytest
import torch

from lab.model.config import LAB_1M, LAB_100K, ModelConfig
from lab.model.errors import ModelError
from lab.model.kv_cache import DenseCache
from lab.model.transformer import Transformer

torch.set_num_threads(1)
CONFIGS = pytest.mark.parametrize("config", [LAB_1M, LAB_100K], ids=["lab-1m", "lab-100k"])
DTYPES = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])


def build(config: ModelConfig = LAB_1M, dtype: torch.dtype = torch.float64, seed: int = 0) -> Transformer:
    """A model with weights large enough that attention is far from uniform, and norm gains that are not 1."""
    torch.manual_seed(seed)
    model = Transformer(config).to(dtype)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(std=0.1)
    return model.eval()


def prompt(length: int, seed: int = 1) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 1024, (length,), generator=generator).tolist()


def reference(model: Transformer, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([tokens]))[0]


@CONFIGS
@DTYPES
def test_prefill_equals_forward(config: ModelConfig, dtype: torch.dtype, tolerance: float) -> None:
    model, tokens = build(config, dtype), prompt(57)
    cache = DenseCache(config, 3, 128, dtype)
    logits = model.prefill(tokens, 1, 0, cache)
    assert torch.allclose(logits, reference(model, tokens)[-1], atol=tolerance, rtol=0)


@DTYPES
@pytest.mark.parametrize("cuts", [(1, 57), (16, 32, 48, 57), (56, 57)])
def test_prefill_in_chunks_equals_prefill_at_once(
    dtype: torch.dtype, tolerance: float, cuts: tuple[int, ...]
) -> None:
    model, tokens = build(dtype=dtype), prompt(57)
    cache = DenseCache(LAB_1M, 2, 64, dtype)
    start = 0
    for end in cuts:
        logits = model.prefill(tokens[start:end], 0, start, cache)
        start = end
    assert torch.allclose(logits, reference(model, tokens)[-1], atol=tolerance, rtol=0)


@CONFIGS
@DTYPES
@pytest.mark.parametrize(
    "slots", [(0, 1, 2, 3), (2, 3, 4, 5), (5, 1, 3, 0)], ids=["run", "later run", "scattered"]
)
def test_decode_of_rows_of_different_lengths_equals_forward(
    config: ModelConfig, dtype: torch.dtype, tolerance: float, slots: tuple[int, ...]
) -> None:
    model = build(config, dtype)
    texts = [prompt(length, seed=length) for length in (3, 40, 17, 1)]
    cache = DenseCache(config, 6, 64, dtype)
    for text, slot in zip(texts, slots, strict=True):
        model.prefill(text, slot, 0, cache)
    for step in range(5):
        new = prompt(4, seed=100 + step)
        logits = model.decode(new, [len(text) for text in texts], slots, cache)
        texts = [[*text, token] for text, token in zip(texts, new, strict=True)]
        for row, text in enumerate(texts):
            assert torch.allclose(logits[row], reference(model, text)[-1], atol=tolerance, rtol=0)


def greedy(model: Transformer, prompts: list[list[int]], steps: int, dtype: torch.dtype) -> list[list[int]]:
    cache = DenseCache(LAB_1M, len(prompts), 128, dtype)
    last = [int(model.prefill(text, slot, 0, cache).argmax()) for slot, text in enumerate(prompts)]
    answers = [[token] for token in last]
    for step in range(steps - 1):
        positions = [len(text) + step for text in prompts]
        last = model.decode(last, positions, range(len(prompts)), cache).argmax(-1).tolist()
        for answer, token in zip(answers, last, strict=True):
            answer.append(token)
    return answers


def test_batching_changes_no_token_in_float64() -> None:
    model = build()
    prompts = [prompt(length, seed=length) for length in (5, 30, 11, 2, 19, 44, 8, 23)]
    together = greedy(model, prompts, 24, torch.float64)
    alone = [greedy(model, [text], 24, torch.float64)[0] for text in prompts]
    assert together == alone


def test_a_slot_used_before_leaves_no_trace() -> None:
    model, cache = build(), DenseCache(LAB_1M, 1, 64, torch.float64)
    model.prefill(prompt(60, seed=9), 0, 0, cache)
    tokens = prompt(7)
    model.prefill(tokens[:6], 0, 0, cache)
    logits = model.decode(tokens[6:], [6], [0], cache)
    assert torch.allclose(logits[0], reference(model, tokens)[-1], atol=1e-9, rtol=0)


def test_bfloat16_stays_near_the_float32_model() -> None:
    exact = build(dtype=torch.float32)
    half = build(dtype=torch.float32).to(torch.bfloat16).eval()
    tokens, cache = prompt(20), DenseCache(LAB_1M, 1, 32, torch.bfloat16)
    half.prefill(tokens[:-1], 0, 0, cache)
    logits = half.decode(tokens[-1:], [19], [0], cache)[0].float()
    wanted = reference(exact, tokens)[-1]
    assert torch.nn.functional.cosine_similarity(logits, wanted, dim=0) > 0.995


def test_weights_changed_in_training_are_used_after_eval() -> None:
    model, tokens, cache = build(), prompt(5), DenseCache(LAB_1M, 1, 8, torch.float64)
    before = model.prefill(tokens, 0, 0, cache)
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight.mul_(3)
    after = model.eval().prefill(tokens, 0, 0, cache)
    assert not torch.allclose(before, after)
    assert torch.allclose(after, reference(model, tokens)[-1], atol=1e-9, rtol=0)


@pytest.mark.parametrize(("count", "slot", "start"), [(0, 0, 0), (9, 0, 0), (1, 0, 8), (1, 2, 0), (1, 0, -1)])
def test_prefill_outside_the_cache_is_an_error(count: int, slot: int, start: int) -> None:
    with pytest.raises(ModelError):
        build().prefill(prompt(count), slot, start, DenseCache(LAB_1M, 2, 8, torch.float64))


@pytest.mark.parametrize(
    ("tokens", "positions", "slots"),
    [([], [], []), ([1, 2], [0], [0]), ([1], [8], [0]), ([1], [0], [2]), ([1], [-1], [0])],
)
def test_decode_outside_the_cache_is_an_error(
    tokens: list[int], positions: list[int], slots: list[int]
) -> None:
    with pytest.raises(ModelError):
        build().decode(tokens, positions, slots, DenseCache(LAB_1M, 2, 8, torch.float64))


@pytest.mark.parametrize(("slots", "max_len"), [(0, 8), (1, 0), (1, 1025)])
def test_a_cache_of_no_size_is_an_error(slots: int, max_len: int) -> None:
    with pytest.raises(ModelError):
        DenseCache(LAB_1M, slots, max_len)
