"""The recipes of chapter 10's evidence: pure functions of recorded samples."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.bench.never_reader import SETTINGS, record_claims, sent_claims, servers
from lab.bench.three_times import StreamTimes, gap_claims, has_text, is_later


def test_sent_claims() -> None:
    runs = dict(zip(SETTINGS, ([9, 7, 8], [4], [6, 6], [2]), strict=True))
    claims = sent_claims(208, runs)
    assert claims["counts"]["nothing shrunk"] == {"runs": 3, "least": 7, "median": 8, "most": 9}
    assert claims["nothing_to_both_shrunk"] == 4


def test_record_claims() -> None:
    row: dict[str, Any] = {
        "reason": "length",
        "socket_end": "complete",
        "generated": 9,
        "sent": 9,
        "read_bytes": 0,
        "done_seen": False,
    }
    claims = record_claims({"naive": [row, row | {"sent": 7, "reason": "stop", "read_bytes": 1}]})
    assert claims["naive"]["reasons"] == ["length", "stop"]
    assert claims["naive"]["sent"] == [7, 9]
    assert claims["naive"]["done_seen"] == 0
    assert not claims["naive"]["read_nothing"]


def test_each_server_has_its_control() -> None:
    assert sorted(servers()) == [
        "fixed, never reads",
        "fixed, reads all",
        "naive, never reads",
        "naive, reads all",
    ]


@pytest.mark.parametrize(
    ("these", "those", "verdict"),
    [([2, 3], [0, 1], "yes"), ([0, 1], [2, 3], "no"), ([0, 2], [1, 3], "unknown"), ([1], [1], "unknown")],
)
def test_is_later_has_three_answers(these: list[float], those: list[float], verdict: str) -> None:
    assert is_later(these, those) == verdict


def test_gap_claims() -> None:
    late, soon = (
        {"headers": 0.02, "content": 0.02, "done": 0.03},
        {"headers": 0.0, "content": 0.02, "done": 0.03},
    )
    claims = gap_claims({"first": [late], "early": [soon]})
    assert claims["median_gap_ms"] == {"first": 0.0, "early": 20.0}
    assert claims["early_headers_come_first"] == "yes"


@pytest.mark.parametrize(
    ("chunk", "text"),
    [
        ({"choices": [{"delta": {"content": "a"}}]}, True),
        ({"choices": [{"delta": {"role": "assistant", "content": ""}}]}, False),
        ({"choices": [{"delta": {}, "finish_reason": "stop"}]}, False),
        ({"choices": [], "usage": {}}, False),
        ({"error": {"code": "drain"}}, False),
    ],
)
def test_only_text_is_text(chunk: dict[str, Any], text: bool) -> None:
    assert has_text(json.dumps(chunk)) is text
    assert not has_text("[DONE]")


def test_the_gap_is_unknown_without_a_text() -> None:
    assert StreamTimes(0.1, None, None, ()).gap is None
    assert StreamTimes(0.1, 0.3, 0.4, ()).gap == pytest.approx(0.2)
