"""Whole characters only, stop strings never leak, and every token is counted once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.engine.detokenize import Detokenizer, Vocabulary, first_stop, held_length

TEXTS = st.text(alphabet="abc é漢字🙂\u0301", max_size=24)
STOPS = st.lists(st.text(alphabet="abcé漢", min_size=1, max_size=4), max_size=3)


def cut_anywhere(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces; equal cuts give empty pieces, as special tokens do."""
    at = sorted(cut % (len(data) + 1) for cut in cuts)
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


def run(pieces: list[bytes], stops: list[str]) -> tuple[list[str], Detokenizer, int, bool]:
    """All texts given out, the detokenizer, tokens in pieces, and whether a stop string was found."""
    detokenizer = Detokenizer(Vocabulary(pieces, eos_id=0), stops)
    out, tokens = [], 0
    for token in range(len(pieces)):
        piece = detokenizer.push(token)
        out.append(piece.text)
        tokens += piece.tokens
        if piece.stopped:
            return out, detokenizer, tokens, True
    piece = detokenizer.finish()
    return [*out, piece.text], detokenizer, tokens + piece.tokens, False


def oracle(text: str, stops: list[str]) -> str:
    """The text before the stop string that is complete first, reading one character at a time."""
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)]
    return text


@given(TEXTS, st.lists(st.integers(0, 200), max_size=12))
def test_any_split_of_the_bytes_gives_the_text_in_whole_characters(text, cuts):
    pieces = cut_anywhere(text.encode(), cuts)
    out, detokenizer, tokens, _ = run(pieces, [])
    assert "".join(out) == text
    assert "\ufffd" not in text
    assert all("\ufffd" not in part for part in out)
    assert tokens == detokenizer.published == len(pieces)


@given(TEXTS, STOPS, st.lists(st.integers(0, 200), max_size=12))
def test_S65_a_stop_string_split_over_tokens_is_found_and_never_leaks(text, stops, cuts):
    pieces = cut_anywhere(text.encode(), cuts)
    out, detokenizer, tokens, stopped = run(pieces, stops)
    assert "".join(out) == oracle(text, stops)
    assert stopped == any(stop in text for stop in stops)
    assert tokens == detokenizer.published
    pushed = len(out) if stopped else len(pieces)
    assert pushed == detokenizer.published + detokenizer.held


@given(TEXTS, STOPS)
def test_S65_no_more_is_held_than_a_proper_prefix_of_a_stop_string(text, stops):
    detokenizer = Detokenizer(Vocabulary([c.encode() for c in text], eos_id=0), stops)
    given_out = ""
    for token in range(len(text)):
        piece = detokenizer.push(token)
        given_out += piece.text
        if piece.stopped:
            return
        held = text[len(given_out) : token + 1]
        assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)
        assert detokenizer.held == len(held)


@given(st.binary(max_size=24), st.lists(st.integers(0, 200), max_size=12))
def test_any_bytes_read_as_python_reads_them_with_replacement(data, cuts):
    out, _, tokens, _ = run(cut_anywhere(data, cuts), [])
    assert "".join(out) == data.decode("utf-8", "replace")
    assert tokens == len(cuts) + 1


def test_a_whole_token_after_half_a_character_does_not_overtake_it():
    out, *_ = run([b"a" + "é".encode()[:1], b"b", b"c"], [])
    assert out == ["a", "\ufffdb", "c", ""]


def test_an_unfinished_character_becomes_one_replacement_at_the_end():
    out, *_ = run([b"a", "🙂".encode()[:3]], [])
    assert out == ["a", "", "\ufffd"]


def test_a_token_counts_with_the_character_it_began():
    first, second = "é".encode()[:1], "é".encode()[1:]
    detokenizer = Detokenizer(Vocabulary([b"a" + first, second, b"b"], eos_id=0))
    assert [detokenizer.push(token)[:2] for token in (0, 1, 2)] == [("a", 1), ("é", 1), ("b", 1)]


def test_tokens_behind_a_stop_string_are_held_for_good_and_one_that_it_cuts_counts():
    detokenizer = Detokenizer(Vocabulary([b"xS", b"TO", b"P y"], eos_id=0), ["STOP"])
    assert [detokenizer.push(token) for token in (0, 1, 2)] == [
        ("x", 1, False),
        ("", 0, False),
        ("", 0, True),
    ]
    assert detokenizer.held == 2


def test_a_token_without_text_counts_at_once_unless_something_is_held():
    detokenizer = Detokenizer(Vocabulary([b"", b"a", b"x"], eos_id=0), ["ab"])
    assert [detokenizer.push(token)[:2] for token in (0, 1, 0, 2)] == [("", 1), ("", 0), ("", 0), ("ax", 3)]


def test_text_before_min_tokens_is_not_searched():
    detokenizer = Detokenizer(Vocabulary([b"S", b"T", b"OPST", b"OP"], eos_id=0), ["STOP"])
    assert detokenizer.push(0, check_stop=False).text == "S"
    assert detokenizer.push(1).text == "T"
    assert not detokenizer.push(2).stopped
    assert detokenizer.push(3).stopped


@pytest.mark.parametrize(
    ("text", "stops", "start"),
    [
        ("abcd", ["abcd", "bc"], 1),
        ("abc", ["bc", "abc"], 0),
        ("aaa", ["aa"], 0),
        ("abc", ["x"], None),
        ("abc", [], None),
    ],
)
def test_the_first_stop_is_the_one_complete_first(text, stops, start):
    assert first_stop(text, stops) == start


@pytest.mark.parametrize(
    ("text", "stops", "length"), [("aab", ["abc"], 2), ("aba", ["abac", "ba"], 3), ("abc", ["abc"], 0)]
)
def test_the_longest_proper_prefix_is_held(text, stops, length):
    assert held_length(text, stops) == length
