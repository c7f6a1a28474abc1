"""Training from a seed: corpus, tokenizer, AdamW, and the loss on documents that no step saw.

The same settings on the same machine with the same number of threads give the same weights, bit for bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from lab.model.config import LAB_1M, LAB_100K, ModelConfig
from lab.model.corpus import Corpus, Document, make_corpus
from lab.model.tokenizer import Tokenizer
from lab.model.transformer import Transformer


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What a training run depends on; `phases` are (row length in tokens, share of the steps)."""

    config: ModelConfig = LAB_1M
    seed: int = 1
    documents: int = 36_000
    steps: int = 2_000
    batch_tokens: int = 2_048
    phases: tuple[tuple[int, float], ...] = ((256, 0.85), (1_024, 0.15))
    learning_rate: float = 3e-3
    warmup: int = 100
    threads: int = 1


SHIPPED: Mapping[str, TrainSettings] = {
    "lab-1m": TrainSettings(),
    "lab-100k": TrainSettings(config=LAB_100K, steps=4_000, learning_rate=6e-3),
}


@dataclass(frozen=True, slots=True)
class TrainResult:
    """A trained model with its losses: nats per token, one a step, and the mean over the held-out documents.

    `cpu_seconds` is what the run takes where it has its cores for itself, as long as it uses one thread.
    """

    transformer: Transformer
    tokenizer: Tokenizer
    corpus: Corpus
    losses: tuple[float, ...]
    held_out_loss: float
    seconds: float
    cpu_seconds: float


def train(
    settings: TrainSettings, on_step: Callable[[int, float], None] = lambda step, loss: None
) -> TrainResult:
    """Train a model; `on_step(step, loss)` is called after every step."""
    started, cpu_started = time.perf_counter(), time.process_time()
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    corpus = make_corpus(settings.documents, settings.seed)
    tokenizer = train_tokenizer(corpus, settings.config)
    stream = tokenize(tokenizer, corpus.training)
    model = _initial(settings.config)
    optimizer = _optimizer(model)
    losses = []
    for step, batch in enumerate(_batches(stream, settings)):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(step, settings)
        loss = next_token_loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        on_step(step, losses[-1])
    model.eval()
    held_out = evaluate(model, tokenize(tokenizer, corpus.held_out))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    return TrainResult(model, tokenizer, corpus, tuple(losses), held_out, seconds, cpu_seconds)


def train_tokenizer(corpus: Corpus, config: ModelConfig, documents: int = 6_000) -> Tokenizer:
    """The tokenizer, learned from the first training documents."""
    texts = [text for document in corpus.training[:documents] for _, text in document.texts]
    return Tokenizer.train(texts, config.vocab_size)


def tokenize(tokenizer: Tokenizer, documents: Sequence[Document]) -> Tensor:
    """All documents behind one another as one line of tokens, int64 [N]."""
    texts = [text for document in documents for _, text in document.texts]
    encoded = iter(tokenizer.encode_all(texts))
    ids: list[int] = []
    for document in documents:
        ids.append(tokenizer.bos_id)
        for role, _ in document.texts:
            if role:
                ids.append(tokenizer.role_id(role))
            ids.extend(next(encoded))
            ids.append(tokenizer.eos_id)
    return torch.tensor(ids)


def next_token_loss(model: Transformer, batch: Tensor) -> Tensor:
    """Mean cross entropy of each token given those before it in its row; batch [B, T + 1]."""
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.inference_mode()
def evaluate(model: Transformer, stream: Tensor, length: int = 256, rows: int = 32) -> float:
    """Loss over a whole line of tokens, cut into rows of `length`."""
    table = _rows(stream, length)
    losses = [next_token_loss(model, part).item() * len(part) for part in torch.split(table, rows)]
    return math.fsum(losses) / len(table)


def _initial(config: ModelConfig) -> Transformer:
    """Random weights; those that write into the residual stream smaller, since many of them add up."""
    model = Transformer(config)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            writes = name.endswith(("o_proj.weight", "down_proj.weight"))
            scale = math.sqrt(2 * config.num_hidden_layers) if writes else 1.0
            torch.nn.init.normal_(parameter, std=0.04 / scale)
    return model.train()


def _optimizer(model: Transformer) -> torch.optim.AdamW:
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    gains = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": gains, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), foreach=True)


def _learning_rate(step: int, settings: TrainSettings) -> float:
    """Linear warm-up, then a cosine down to a fiftieth."""
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.learning_rate * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * done)))


def _rows(stream: Tensor, length: int) -> Tensor:
    """[N] -> [N // length, length + 1]: neighbouring rows share one token, so that each token is predicted once."""
    return stream.unfold(0, length + 1, length)


def _batches(stream: Tensor, settings: TrainSettings) -> Iterator[Tensor]:
    """Rows in random order, phase by phase; when the text is used up it starts again in another order."""
    steps = 0
    share_done = 0.0
    for length, share in settings.phases:
        share_done += share
        table = _rows(stream, length)
        rows = max(1, settings.batch_tokens // length)
        order: list[int] = []
        while steps < round(settings.steps * share_done):
            if len(order) < rows:
                order = torch.randperm(len(table)).tolist()
            yield table[[order.pop() for _ in range(rows)]]
            steps += 1
