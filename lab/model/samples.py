"""Texts written by a model to judge it by, and how much of them stands in its training text."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from lab.model.checkpoint import Model
from lab.model.copies import CopyFinder
from lab.model.corpus import Corpus, plain_text
from lab.model.generate import generate
from lab.model.grammar import write
from lab.model.quality import MAX_COPY

COPY_LENGTHS = (20, 30, 40, 50, MAX_COPY + 1)
OPENING = 2  # tokens
MAX_TOKENS = 384  # more than any report has


def take_samples(model: Model, count: int, seed: int, temperature: float) -> list[dict[str, str]]:
    """`count` texts, half of them reports that go on from their first tokens, half replies to questions.

    Each is {"rule", "prompt", "text"}; `rule` is the grammar rule that it should follow, a report with its prompt.
    """
    random_ = random.Random(seed)
    starts = [_start(model, write("report", random_)) for _ in range(count // 2)]
    questions = [write("question", random_) for _ in range(count - len(starts))]
    prompts = starts + [
        model.tokenizer.chat([{"role": "user", "content": question}]) for question in questions
    ]
    answers = generate(model, prompts, MAX_TOKENS, temperature, seed)
    rules = ["report"] * len(starts) + ["reply"] * len(questions)
    asked = [model.tokenizer.decode(start) for start in starts] + questions
    return [
        {"rule": rule, "prompt": prompt, "text": model.tokenizer.decode(answer)}
        for rule, prompt, answer in zip(rules, asked, answers, strict=True)
    ]


def _start(model: Model, text: str) -> list[int]:
    """The first tokens of a text, at least OPENING, up to the end of a character."""
    tokens = model.tokenizer.encode(text)
    end = 1 + OPENING
    while "\ufffd" in model.tokenizer.decode(tokens[:end]):
        end += 1
    return tokens[:end]


def count_copies(corpus: Corpus, samples: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """For each of COPY_LENGTHS, how many samples share that many characters in a row with the training text."""
    finder = CopyFinder(plain_text(corpus.training))
    texts = [sample["text"] for sample in samples]
    return {str(length): sum(finder.copied(texts, length)) for length in COPY_LENGTHS}
