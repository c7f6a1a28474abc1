"""A row's choice depends on its own logits, settings and seed, and follows the distribution that they define."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine.messages import SamplingParams
from lab.engine.sampler import Draws, choose

SETTINGS = st.builds(
    SamplingParams,
    max_tokens=st.just(1),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 2, 5, 50]),
    seed=st.integers(0, 2**40),
)


def params(**changes):
    return SamplingParams(**{"max_tokens": 1, "seed": 1} | changes)


def frequencies(logits, chosen, draws=4000):
    row = torch.tensor(logits, dtype=torch.float32)
    source = Draws(7)
    ids = choose(row.expand(draws, -1), [(chosen, source)] * draws).tolist()
    return {token: count / draws for token, count in Counter(ids).items()}


@given(st.lists(SETTINGS, min_size=1, max_size=6), st.integers(0, 1000))
@settings(deadline=None)
def test_a_choice_does_not_depend_on_the_neighbours(rows, seed):
    logits = torch.randn(len(rows), 40, generator=torch.Generator().manual_seed(seed))
    together = choose(logits, [(row, Draws(row.seed)) for row in rows]).tolist()
    alone = [choose(logits[b : b + 1], [(row, Draws(row.seed))]).item() for b, row in enumerate(rows)]
    assert together == alone


def test_temperature_zero_is_the_best_logit():
    logits = torch.tensor([[0.0, 3.0, 2.0], [5.0, 1.0, 2.0]])
    row = (params(temperature=0.0), Draws(1))
    assert choose(logits, [row, row]).tolist() == [1, 0]


def test_plain_sampling_follows_the_softmax():
    seen = frequencies([0.0, 1.0, 2.0], params())
    expected = torch.tensor([0.0, 1.0, 2.0]).softmax(0).tolist()
    assert [seen[token] for token in range(3)] == pytest.approx(expected, abs=0.03)


def test_temperature_sharpens():
    cold, warm = (frequencies([0.0, 1.0], params(temperature=t))[1] for t in (0.5, 2.0))
    assert cold == pytest.approx(0.881, abs=0.02)
    assert warm == pytest.approx(0.622, abs=0.03)


def test_top_k_keeps_the_k_best():
    assert set(frequencies([0.0, 1.0, 2.0, 3.0], params(top_k=2))) == {2, 3}
    assert set(frequencies([0.0, 1.0, 2.0, 3.0], params(top_k=1))) == {3}


def test_top_p_keeps_the_fewest_that_reach_it():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    assert set(frequencies(logits, params(top_p=0.49))) == {0}
    assert set(frequencies(logits, params(top_p=0.6))) == {0, 1}
    assert set(frequencies(logits, params(top_p=0.94))) == {0, 1, 2}


def test_top_p_stops_at_the_token_that_reaches_it_exactly():
    assert set(frequencies([1.0, 1.0], params(top_p=0.5))) == {0}


def test_top_p_counts_within_what_top_k_left():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().tolist()
    assert set(frequencies(logits, params(top_k=2, top_p=0.5))) == {0}


def test_a_token_without_probability_is_never_chosen():
    assert set(frequencies([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf], params())) == {1, 3}


def test_a_seed_repeats_its_draws_and_none_does_not():
    first, second = Draws(5), Draws(5)
    assert [first.next() for _ in range(3)] == [second.next() for _ in range(3)]
    assert Draws(None).next() != Draws(None).next()
