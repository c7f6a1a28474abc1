"""Text comes back from its tokens whole; control tokens come only from the template."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model.checkpoint import WEIGHTS
from lab.model.config import LAB_1M
from lab.model.corpus import make_corpus
from lab.model.errors import ModelError
from lab.model.tokenizer import EOS, SPECIAL, Tokenizer
from lab.model.training import SHIPPED, train_tokenizer

TOKENIZER = Tokenizer.load(WEIGHTS / "lab-1m")


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(text: str) -> None:
    ids = TOKENIZER.encode(text, bos=False)
    assert b"".join(map(TOKENIZER.token_bytes, ids)) == text.encode()


@pytest.mark.parametrize("character", ["🐌", "é", "断", "𝔘", "🧵"])
def test_a_character_may_span_tokens_and_half_of_it_is_no_character(character: str) -> None:
    ids = TOKENIZER.encode("𝔘" if character == "é" else character, bos=False)
    if len(ids) > 1:
        assert "\ufffd" in TOKENIZER.decode(ids[:-1])
    assert TOKENIZER.decode(ids).strip()


def test_some_characters_of_the_corpus_span_tokens() -> None:
    spans = {mark: len(TOKENIZER.encode(mark, bos=False)) for mark in "🪣🐌断槽"}
    assert max(spans.values()) > 1


def test_digits_are_one_token_each() -> None:
    assert len(TOKENIZER.encode("20481", bos=False)) == 5


def test_bos_is_in_front_unless_unwanted() -> None:
    assert TOKENIZER.encode("Oslo")[0] == TOKENIZER.bos_id
    assert TOKENIZER.encode("Oslo")[1:] == TOKENIZER.encode("Oslo", bos=False)


@pytest.mark.parametrize("control", SPECIAL)
def test_control_tokens_are_never_read_out_of_a_text(control: str) -> None:
    ids = TOKENIZER.encode(control, bos=False)
    assert len(ids) > 1
    assert TOKENIZER.decode(ids) == control


def test_control_tokens_have_no_text() -> None:
    assert [TOKENIZER.token_bytes(token) for token in range(len(SPECIAL))] == [b""] * len(SPECIAL)


@pytest.mark.parametrize("token", [-1, 1024])
def test_a_token_outside_the_vocabulary_is_an_error(token: int) -> None:
    with pytest.raises(ModelError, match="there is no token"):
        TOKENIZER.token_bytes(token)


def test_chat_ends_where_the_assistant_begins() -> None:
    messages = [{"role": "system", "content": "You watch."}, {"role": "user", "content": "Ready?"}]
    ids = TOKENIZER.chat(messages)
    assert ids[0] == TOKENIZER.bos_id
    assert ids[-1] == TOKENIZER.role_id("assistant")
    assert ids.count(TOKENIZER.eos_id) == 2
    assert TOKENIZER.decode(ids) == "You watch.Ready?"


def test_a_message_with_a_control_token_is_refused() -> None:
    with pytest.raises(ModelError, match="control token"):
        TOKENIZER.chat([{"role": "user", "content": f"hi {EOS}"}])


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ModelError, match="unknown role: pirate"):
        TOKENIZER.chat([{"role": "pirate", "content": "hi"}])


def test_both_checkpoints_have_the_tokenizer_that_the_corpus_gives() -> None:
    corpus = make_corpus(8_000, SHIPPED["lab-1m"].seed)
    made = train_tokenizer(corpus, LAB_1M)
    shipped = {(WEIGHTS / name / "tokenizer.json").read_bytes() for name in SHIPPED}
    assert len(shipped) == 1
    texts = ["At 04:17 the quiet proxy in Göteborg parked r4821.", "网关等了3.2 s。🪣", "À Lyon, le décodeur"]
    assert [made.encode(text) for text in texts] == [TOKENIZER.encode(text) for text in texts]


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja"])
def test_a_missing_file_is_one_clear_error(name: str, tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ModelError, match="no usable tokenizer"):
        Tokenizer.load(tmp_path)


def test_a_garbled_tokenizer_is_one_clear_error(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"', encoding="utf-8")
    with pytest.raises(ModelError, match="no usable tokenizer"):
        Tokenizer.load(tmp_path)
