"""The real model behind the loop: a checkpoint and its dense cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lab.engine.config import EngineConfig, EngineInfo
from lab.engine.detokenize import Vocabulary
from lab.model.checkpoint import Model, load
from lab.model.kv_cache import DenseCache


class ModelRunner:
    """A checkpoint and its dense cache."""

    def __init__(self, model: Model, slots: int, max_len: int) -> None:
        """:raises ModelError: when the cache cannot have this size."""
        weight = model.transformer.model.embed_tokens.weight
        self._transformer = model.transformer
        self._cache = DenseCache(model.config, slots, max_len, weight.dtype, weight.device)
        self.slots = slots
        self.max_len = max_len

    def prefill(self, tokens: Sequence[int], slot: int, start: int) -> Tensor:
        """See `Runner.prefill`."""
        return self._transformer.prefill(tokens, slot, start, self._cache)

    def decode(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int]) -> Tensor:
        """See `Runner.decode`."""
        return self._transformer.decode(tokens, positions, slots, self._cache)


def load_engine(config: EngineConfig) -> tuple[ModelRunner, Vocabulary, EngineInfo]:
    """Load the model of `config` and make room for its sequences. Sets torch's thread count, which is process-wide.

    :raises ModelError: when the checkpoint cannot be loaded or the cache cannot have this size.
    """
    torch.set_num_threads(config.threads)
    model = load(config.model, device=config.device, dtype=config.dtype)
    runner = ModelRunner(model, config.slots, config.max_len)
    vocabulary = Vocabulary.of(model.tokenizer, model.config.vocab_size)
    device = str(model.transformer.model.embed_tokens.weight.device)
    info = EngineInfo(
        model.name, model.fingerprint, config.slots, config.max_len, model.config.vocab_size, device
    )
    return runner, vocabulary, info
