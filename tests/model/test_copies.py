"""The copy finder agrees with a plain search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model.copies import CopyFinder


def longest_by_search(text: str, sample: str) -> int:
    runs = [
        sample[i:j] for i in range(len(sample)) for j in range(i + 1, len(sample) + 1) if sample[i:j] in text
    ]
    return max(map(len, runs), default=0)


@given(st.text("abé🔥", max_size=60), st.lists(st.text("abé🔥", max_size=12), max_size=3))
@settings(max_examples=150, deadline=None)
def test_longest_run_is_what_a_plain_search_finds(text: str, samples: list[str]) -> None:
    expected = max((longest_by_search(text, sample) for sample in samples), default=0)
    assert CopyFinder(text).longest(samples) == expected


@pytest.mark.parametrize(
    ("length", "expected"), [(4, [True, False]), (5, [True, False]), (6, [False, False])]
)
def test_copied_answers_for_each_sample(length: int, expected: list[bool]) -> None:
    assert CopyFinder("the queue is full").copied(["a queu", "is not"], length) == expected
