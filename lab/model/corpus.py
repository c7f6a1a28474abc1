"""The training text: reports and dialogues written with the grammar, the same for the same seed on every machine.

Every 50th document is held out: no training step sees it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from lab.model.grammar import write
from lab.model.tokenizer import BOS, EOS

HELD_OUT_EVERY = 50
_LANGUAGES = ("en", "en", "en", "en", "en", "en", "fr", "zh")


@dataclass(frozen=True, slots=True)
class Document:
    """A report (one text without a role) or a dialogue (texts with roles)."""

    texts: tuple[tuple[str, str], ...]

    def render(self) -> str:
        """As the model sees it: what the chat template gives, or begin, text, end."""
        return BOS + "".join(f"<|{role}|>{text}{EOS}" if role else text + EOS for role, text in self.texts)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents for training and documents held out."""

    training: tuple[Document, ...]
    held_out: tuple[Document, ...]


def make_corpus(documents: int, seed: int) -> Corpus:
    """`documents` documents, half of them dialogues."""
    random_ = random.Random(seed)
    made = [_dialogue(random_) if i % 2 else _report(random_) for i in range(documents)]
    held_out = made[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    del made[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    return Corpus(tuple(made), tuple(held_out))


def plain_text(documents: Iterable[Document]) -> str:
    """All texts, one a line, without roles: where copies are looked for."""
    return "\n".join(text for document in documents for _, text in document.texts)


def _report(random_: random.Random) -> Document:
    return Document((("", write("report", random_)),))


def _dialogue(random_: random.Random) -> Document:
    texts = []
    if random_.random() < 0.3:
        texts.append(("system", write("duty", random_)))
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        language = random_.choice(_LANGUAGES)
        texts.append(("user", write(f"question_{language}", random_)))
        texts.append(("assistant", write(f"reply_{language}", random_)))
    return Document(tuple(texts))
