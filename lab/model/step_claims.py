"""What the recorded times of steps say. Without torch, so that evidence can be checked anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import quantiles
from typing import Any

MARGIN = 2.0  # a claim needs a ratio beyond this, or this far on the other side


def claims(
    prefill: Mapping[str, Sequence[float]], decode: Mapping[str, Sequence[float]], setting: Mapping[str, Any]
) -> dict[str, Any]:
    """The recipe of the step times.

    :param prefill: chunk length in tokens -> seconds of each repetition
    :param decode: batch size in rows -> seconds of each repetition, one token a row
    :param setting: model, device and context of the run; not used
    """
    chunks, batches = sorted(map(int, prefill)), sorted(map(int, decode))
    one, most = decode[str(batches[0])], decode[str(batches[-1])]
    prompt = [seconds / chunks[-1] for seconds in prefill[str(chunks[-1])]]
    return {
        "prefill_us_per_token": {str(n): _us(prefill[str(n)], n) for n in chunks},
        "decode_us_per_token": {str(n): _us(decode[str(n)], n) for n in batches},
        "a_decoded_token_costs_more_than_a_prefilled_one": verdict(one, prompt),
        "a_batched_token_costs_less_than_a_lonely_one": verdict(one, [s / batches[-1] for s in most]),
    }


def verdict(dear: Sequence[float], cheap: Sequence[float]) -> str:
    """Whether `dear` is more than MARGIN times `cheap`: "yes", "no", or "unknown" when the middle halves do not agree.

    Both are samples of one quantity; at least four of each are needed to know anything.
    """
    if min(len(dear), len(cheap)) < 4:
        return "unknown"
    low, high = quantiles(dear, n=4)[::2]
    low_cheap, high_cheap = quantiles(cheap, n=4)[::2]
    if low > MARGIN * high_cheap:
        return "yes"
    return "no" if high < MARGIN * low_cheap else "unknown"


def _us(seconds: Sequence[float], tokens: int) -> float:
    """Of the fastest repetition: what a step costs when nothing else wants the core."""
    return round(1e6 * min(seconds) / tokens, 2)
