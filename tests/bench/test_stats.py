"""The statistics that every bench and every measured piece of evidence rest on."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.bench.stats import median_interval, paired_ratio, quantile


@pytest.mark.parametrize(
    ("n", "rank"), [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (15, 4), (20, 6), (25, 8), (100, 40)]
)
def test_the_interval_uses_the_ranks_of_the_sign_test(n, rank):
    values = [float(v) for v in range(1, n + 1)]
    random.Random(n).shuffle(values)
    assert median_interval(values) == (rank, n + 1 - rank)
    beyond = sum(math.comb(n, k) for k in range(rank)) / 2**n
    assert n < 6 or 1 - 2 * beyond >= 0.95


def test_a_ratio_is_taken_within_each_pair():
    theirs = [100.0 * (1 + k) for k in range(15)]
    ratio = paired_ratio([0.95 * rate for rate in theirs], theirs, 0.9)
    assert (ratio.median, ratio.low, ratio.high) == pytest.approx((0.95, 0.95, 0.95))
    assert ratio.verdict == "met"


@pytest.mark.parametrize(("target", "verdict"), [(0.8, "met"), (1.0, "unknown"), (1.3, "missed")])
def test_an_interval_that_holds_the_target_is_unknown(target, verdict):
    ours = [0.9 + 0.02 * k for k in range(15)]
    assert paired_ratio(ours, [1.0] * 15, target).verdict == verdict


def test_too_few_pairs_are_unknown_however_clear():
    assert paired_ratio([5.0] * 14, [1.0] * 14, 0.9).verdict == "unknown"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [math.nan]), ([math.inf], [1.0])],
)
def test_what_is_no_pair_of_rates_is_refused(ours, theirs):
    with pytest.raises(ValueError, match=r"pairs|rate"):
        paired_ratio(ours, theirs, 0.9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_is_a_value_that_enough_others_do_not_exceed(values, q):
    found = quantile(values, q)
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values) - 1e-9
    assert sum(value < found for value in values) <= q * len(values) + 1e-9


@pytest.mark.parametrize(("values", "q"), [([], 0.5), ([1.0], 1.5), ([1.0], -0.1)])
def test_a_quantile_of_nothing_is_refused(values, q):
    with pytest.raises(ValueError, match="quantile"):
        quantile(values, q)
