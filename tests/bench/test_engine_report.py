"""From raw samples to claims, and the command that takes the samples."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lab.bench.engine_report import lines, summarise
from lab.cli.bench import command


def samples(**changes):
    decode = {
        "1": {"engine": [1.05] * 15, "ragged": [1.0] * 15},
        "8": {"engine": [2.0] * 15, "ragged": [1.0] * 15},
    }
    cancel = {"seconds": [0.004] * 120, "steps": [1] * 119 + [2], "longest_step": 0.010}
    return {"model": "lab-1m", "steps": 100, "decode": decode, "cancel": cancel} | changes


def test_rates_count_all_requests_and_the_ratio_is_engine_over_ragged():
    report = summarise(**samples())
    assert report["decode"]["8"]["engine_tokens_per_second"] == 400.0
    assert report["decode"]["8"]["ragged_tokens_per_second"] == 800.0
    assert report["decode"]["1"]["ratio"]["median"] == pytest.approx(1 / 1.05)
    assert [report["decode"][rows]["ratio"]["verdict"] for rows in ("1", "8")] == ["met", "missed"]


def test_a_cancel_may_take_the_longest_step_and_two_milliseconds():
    assert summarise(**samples())["cancel"] == {
        "cancels": 120,
        "steps_to_free_slot": 2,
        "p50_ms": 4.0,
        "p99_ms": 4.0,
        "limit_ms": 12.0,
        "verdict": "met",
    }


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [([0.004] * 99, "unknown"), ([0.004] * 98 + [0.013] * 2, "missed"), ([0.013] * 50, "unknown")],
)
def test_the_verdict_on_cancels(seconds, verdict):
    cancel = {"seconds": seconds, "steps": [1], "longest_step": 0.010}
    assert summarise(**samples(cancel=cancel))["cancel"]["verdict"] == verdict


def test_a_report_is_one_line_a_claim():
    head, one, eight, cancel = lines(summarise(**samples()))
    assert "ratio = engine / ragged loop" in head
    assert "0.952 [0.952, 0.952] of 15 pairs; at least 0.9: met" in one
    assert "missed" in eight
    assert "p99 4.00 ms of 120; at most 12.00 ms" in cancel


def test_the_command_measures_both_sides_in_one_run():
    arguments = [
        "engine",
        "--model",
        "lab-100k",
        "--requests",
        "2",
        "--steps",
        "8",
        "--pairs",
        "2",
        "--cancels",
        "3",
        "--json",
    ]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["decode"]["2"]["ratio"]["pairs"] == 2
    assert report["decode"]["2"]["ratio"]["verdict"] == "unknown"
    assert report["cancel"]["steps_to_free_slot"] >= 1


@pytest.mark.parametrize("arguments", [["--model", "lab-none"], ["--pairs", "0"], ["--requests", "many"]])
def test_bad_input_is_one_line_and_a_code(arguments):
    result = CliRunner().invoke(command, ["engine", *arguments])
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    assert result.output.strip().splitlines()[-1].startswith("Error: ")
