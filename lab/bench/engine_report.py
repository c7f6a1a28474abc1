"""From the raw samples of `lab bench engine` to its claims. Pure: the evidence is recomputed with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from lab.bench.stats import paired_ratio, quantile

DECODE_TARGET = 0.9  # of the ragged loop, at any number of requests
CANCEL_MARGIN = 0.002  # seconds beyond the longest running step
MIN_CANCELS = 100  # a 99th percentile of fewer says nothing


def summarise(
    *,
    model: str,
    steps: int,
    decode: Mapping[str, Mapping[str, Sequence[float]]],
    cancel: Mapping[str, Any],
) -> dict[str, Any]:
    """Decode rates with their ratio for each number of requests, and the time from cancel to free slot.

    :param model: the checkpoint that ran
    :param steps: tokens decoded for each request in each sample
    :param decode: requests -> {"engine": seconds of each sample, "ragged": the same}
    :param cancel: "seconds" and "steps" from each abort to its free slot, "longest_step" in seconds
    """
    return {
        "model": model,
        "decode": {rows: _compare(int(rows) * steps, sides) for rows, sides in decode.items()},
        "cancel": _cancel(cancel),
    }


def _compare(tokens: int, sides: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    rates = {name: [tokens / seconds for seconds in sides[name]] for name in ("engine", "ragged")}
    return {
        "engine_tokens_per_second": round(median(rates["engine"]), 1),
        "ragged_tokens_per_second": round(median(rates["ragged"]), 1),
        "ratio": paired_ratio(rates["engine"], rates["ragged"], DECODE_TARGET).to_json_dict(),
    }


def _cancel(samples: Mapping[str, Any]) -> dict[str, Any]:
    seconds, limit = samples["seconds"], samples["longest_step"] + CANCEL_MARGIN
    p99 = quantile(seconds, 0.99)
    verdict = "unknown" if len(seconds) < MIN_CANCELS else "met" if p99 <= limit else "missed"
    return {
        "cancels": len(seconds),
        "steps_to_free_slot": max(samples["steps"]),
        "p50_ms": round(1e3 * quantile(seconds, 0.5), 3),
        "p99_ms": round(1e3 * p99, 3),
        "limit_ms": round(1e3 * limit, 3),
        "verdict": verdict,
    }


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report as text, one claim a line."""
    out = [
        f"decode, {report['model']}, greedy, dense slots; ratio = engine / ragged loop, median [95 % interval]"
    ]
    for rows, row in report["decode"].items():
        ratio = row["ratio"]
        out.append(
            f"{rows:>4} requests: engine {row['engine_tokens_per_second']:>9,.0f} tok/s,"
            f" ragged loop {row['ragged_tokens_per_second']:>9,.0f} tok/s,"
            f" ratio {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"
            f" of {ratio['pairs']} pairs; at least {ratio['target']:g}: {ratio['verdict']}"
        )
    cancel = report["cancel"]
    out.append(
        f"cancel to free slot: {cancel['steps_to_free_slot']} step at most, p50 {cancel['p50_ms']:.2f} ms,"
        f" p99 {cancel['p99_ms']:.2f} ms of {cancel['cancels']};"
        f" at most {cancel['limit_ms']:.2f} ms (longest step + 2): {cancel['verdict']}"
    )
    return out
