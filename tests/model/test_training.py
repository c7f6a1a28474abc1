"""A short training run learns, and learns the same again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lab.evidence import load
from lab.model.config import ModelConfig
from lab.model.copies import CopyFinder
from lab.model.corpus import make_corpus, plain_text
from lab.model.quality import MAX_COPY, summary
from lab.model.training import SHIPPED, TrainSettings, train

TINY = TrainSettings(
    config=ModelConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2),
    documents=600,
    steps=30,
    batch_tokens=512,
    phases=((64, 0.8), (128, 0.2)),
    warmup=5,
    learning_rate=1e-2,
)


def test_a_short_run_lowers_the_loss_and_repeats_bit_for_bit() -> None:
    seen: list[int] = []
    first = train(TINY, lambda step, loss: seen.append(step))
    again = train(TINY)
    assert seen == list(range(30))
    assert first.losses[-1] < first.losses[0] - 1
    assert first.held_out_loss < 6
    assert first.losses == again.losses
    assert first.held_out_loss == again.held_out_loss
    for one, other in zip(first.transformer.parameters(), again.transformer.parameters(), strict=True):
        assert torch.equal(one, other)


def test_another_seed_gives_another_run() -> None:
    assert train(TINY).losses != train(replace(TINY, seed=2)).losses


def test_summary_counts_from_the_samples() -> None:
    samples = [
        {"rule": "clock", "prompt": "When?", "text": "12:30"},
        {"rule": "clock", "prompt": "", "text": "12:61"},
    ]
    made = summary([5.0, 2.0], [1.5, 1.51], samples, {"61": 0}, {"parameters": 7}, 700.0, 90.0)
    assert made["parse_rate"] == 0.5
    assert made["held_out_spread"] == 0.01
    assert made["runs"] == 2
    assert made["cpu_minutes"] == 1.5


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_recorded_samples_copy_at_most_60_characters_of_the_training_text(name: str) -> None:
    """Against the text that the shipped settings give, made again here."""
    evidence = load(f"07_a_tiny_lm/training_{name.replace('-', '_')}.json")
    settings = SHIPPED[name]
    finder = CopyFinder(plain_text(make_corpus(settings.documents, settings.seed).training))
    samples = [sample["text"] for sample in evidence.inputs["samples"]]
    assert len(samples) == 200
    assert not any(finder.copied(samples, MAX_COPY + 1))
    assert any(finder.copied(samples, 20))
