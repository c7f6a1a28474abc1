"""The grammar writes what it accepts and refuses what is broken; the corpus is the same for the same seed."""

from __future__ import annotations

import random

import pytest

from lab.model.corpus import HELD_OUT_EVERY, make_corpus, plain_text
from lab.model.errors import ModelError
from lab.model.grammar import RULES, parses, write


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_accepts_its_own_texts(rule: str) -> None:
    random_ = random.Random(rule)
    assert all(parses(rule, write(rule, random_)) for _ in range(20))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("clock", "24:00"),
        ("clock", "12:60"),
        ("share", "47"),
        ("n", "0"),
        ("n", "1"),
        ("city", "Paris"),
        ("fix", "We drained the old proxy in 3.1 s."),
        ("report", ""),
        ("reply", "It held 36 samples at 12:08"),
    ],
)
def test_broken_texts_do_not_parse(rule: str, text: str) -> None:
    assert not parses(rule, text)


def test_a_text_with_a_character_less_or_more_does_not_parse() -> None:
    random_ = random.Random(5)
    for _ in range(50):
        text = write("report", random_)
        assert not parses("report", text[:-1])
        assert not parses("report", text + " ")
        assert not parses("report", "X" + text)


def test_rules_refer_only_to_rules() -> None:
    with pytest.raises(ModelError, match="no rule 'nobody'"):
        parses("nobody", "x")
    random_ = random.Random(0)
    for rule in RULES:
        for _ in range(30):
            assert "{" not in write(rule, random_)


def test_the_corpus_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert make_corpus(200, seed=3) == make_corpus(200, seed=3)
    assert make_corpus(200, seed=3) != make_corpus(200, seed=4)


def test_held_out_documents_are_not_in_the_training_text() -> None:
    corpus = make_corpus(1_000, seed=1)
    assert len(corpus.held_out) == 1_000 // HELD_OUT_EVERY
    assert not set(corpus.held_out) & set(corpus.training)


def test_the_corpus_holds_dialogues_accents_chinese_and_emoji() -> None:
    corpus = make_corpus(400, seed=1)
    text = plain_text(corpus.training)
    assert {"é", "网", "🔥"} <= set(text)
    roles = {role for document in corpus.training for role, _ in document.texts}
    assert roles == {"", "system", "user", "assistant"}
