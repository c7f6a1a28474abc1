"""The claims on the redraw time follow from the samples, and say "unknown" where they must."""

import pytest

from lab.bench.redraw import claims

QUICK, SLOW = [20.0] * 94 + [45.0] * 6, [30.0] * 94 + [60.0] * 6


def test_within_the_targets() -> None:
    assert claims(QUICK, load=0.1, cpus=2) == {
        "moves": 100,
        "busy_machine": False,
        "p50_ms": 20.0,
        "p50": "met",
        "p95_ms": 45.0,
        "p95": "met",
    }


def test_too_slow_on_a_quiet_machine_is_missed_and_on_a_busy_one_unknown() -> None:
    assert [claims(SLOW, load=0.5, cpus=2)[name] for name in ("p50", "p95")] == ["missed", "missed"]
    assert [claims(SLOW, load=5.0, cpus=2)[name] for name in ("p50", "p95")] == ["unknown", "unknown"]
    assert claims(QUICK, load=5.0, cpus=2)["p50"] == "met"


def test_too_few_moves_are_unknown_and_none_is_an_error() -> None:
    assert claims([1.0] * 99, load=0.1, cpus=2)["p50"] == "unknown"
    with pytest.raises(ValueError, match="0 values"):
        claims([], load=0.1, cpus=2)
