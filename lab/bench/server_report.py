"""From the raw samples of `lab bench server` to its claims. Pure: the evidence is recomputed with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from lab.bench.stats import paired_ratio, quantile

ENGINE_TARGET = 0.75  # of the engine alone, at any number of streams
AGAINST_TARGETS: Mapping[str, float] = {"1": 2.0, "8": 1.3, "32": 1.3}  # of the other server
Side: TypeAlias = Mapping[str, Sequence[float]]  # "seconds" of each run, "ttft" of every stream, in seconds


def summarise(
    *, model: str, steps: int, runs: Mapping[str, Mapping[str, Side]], against: str | None = None
) -> dict[str, Any]:
    """Rates, first-token times and ratios for each number of streams.

    :param model: the checkpoint that was served
    :param steps: tokens generated for each stream in each run
    :param runs: streams -> {"server": samples, "engine": samples, and "against": samples if there was one}
    :param against: what the other server calls its model
    """
    return {
        "model": model,
        "against": against,
        "streams": {streams: _compare(streams, steps, sides) for streams, sides in runs.items()},
    }


def _compare(streams: str, steps: int, sides: Mapping[str, Side]) -> dict[str, Any]:
    tokens = int(streams) * steps
    rates = {name: [tokens / seconds for seconds in side["seconds"]] for name, side in sides.items()}
    row: dict[str, Any] = {
        name: {
            "tokens_per_second": round(median(rates[name]), 1),
            "ttft_p50_ms": round(1e3 * quantile(side["ttft"], 0.5), 2),
        }
        for name, side in sides.items()
    }
    row["of_engine"] = paired_ratio(rates["server"], rates["engine"], ENGINE_TARGET).to_json_dict()
    if "against" in sides:
        target = AGAINST_TARGETS.get(streams, 1.0)
        row["of_against"] = paired_ratio(rates["server"], rates["against"], target).to_json_dict()
    return row


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report as text, one claim a line."""
    out = [f"served over SSE, {report['model']}, greedy; ratio = server / other side, median [95 % interval]"]
    for streams, row in report["streams"].items():
        out.append(f"{streams:>4} streams: server {_side(row['server'])}")
        out.append(f"{'':>14}engine {_side(row['engine'])}, {_ratio(row['of_engine'])}")
        if "against" in row:
            out.append(f"{'':>13}against {_side(row['against'])}, {_ratio(row['of_against'])}")
    return out


def _side(side: Mapping[str, float]) -> str:
    return f"{side['tokens_per_second']:>9,.0f} tok/s, first token {side['ttft_p50_ms']:>6.1f} ms"


def _ratio(ratio: Mapping[str, Any]) -> str:
    return (
        f"ratio {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}] of {ratio['pairs']} pairs;"
        f" at least {ratio['target']:g}: {ratio['verdict']}"
    )
