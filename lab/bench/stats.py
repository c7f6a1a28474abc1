"""The statistics of every bench: medians, quantiles, and ratios of paired samples. Standard library only.

A ratio is taken within each pair, since the two runs of a pair are neighbours in time and share the machine's mood.
The interval of its median comes from order statistics: for n pairs the number of ratios below the true median is
binomial(n, 1/2) whatever their distribution, so the k-th smallest and k-th largest ratio enclose it with a known chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

MIN_PAIRS = 15
Verdict = Literal["met", "missed", "unknown"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median of paired ratios with its interval, and whether it is at least `target`."""

    pairs: int
    median: float
    low: float
    high: float
    target: float
    verdict: Verdict

    def to_json_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}], target {self.target:g}: {self.verdict}"


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], target: float) -> Ratio:
    """`ours[i] / theirs[i]` over all pairs, larger is better (both are rates).

    Fewer than `MIN_PAIRS` pairs, or an interval that holds the target, give "unknown".

    :raises ValueError: when the two sides differ in length, are empty, or hold a number that is no rate.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"pairs need two equal sides, not {len(ours)} and {len(theirs)} samples")
    if not all(math.isfinite(rate) and rate > 0 for rate in (*ours, *theirs)):
        raise ValueError("a rate is a positive finite number")
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    low, high = median_interval(ratios)
    verdict: Verdict = "unknown"
    if len(ratios) >= MIN_PAIRS:
        verdict = "met" if low >= target else "missed" if high < target else "unknown"
    return Ratio(len(ratios), median(ratios), low, high, target, verdict)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The narrowest symmetric pair of order statistics that holds the median with at least this confidence.

    With fewer than six values no pair does at 0.95: then the smallest and the largest are returned.

    :raises ValueError: when there is no value.
    """
    if not values:
        raise ValueError("no values")
    ordered, n = sorted(values), len(values)
    rank, beyond = 0, 0.0
    for candidate in range(n // 2):
        beyond += math.comb(n, candidate) / 2**n  # chance that the median lies beyond this order statistic
        if 2 * beyond > 1 - confidence:
            break
        rank = candidate
    return ordered[rank], ordered[n - 1 - rank]


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least a share `q` of all values does not exceed (nearest rank).

    :raises ValueError: when there is no value, or q lies outside 0..1.
    """
    if not values or not 0 <= q <= 1:
        raise ValueError(f"a quantile needs values and a share in 0..1, not {len(values)} values and {q}")
    return sorted(values)[max(math.ceil(q * len(values) - 1e-9) - 1, 0)]
