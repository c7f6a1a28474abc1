"""Step times: what is measured, and what may be said of it."""

from __future__ import annotations

import pytest

from lab.model.checkpoint import load
from lab.model.errors import ModelError
from lab.model.generate import generate
from lab.model.step_claims import claims, verdict
from lab.model.step_times import measure, time_run


def test_measure_gives_every_repetition_of_every_size() -> None:
    prefill, decode = measure(load("lab-100k", "cpu"), context=8, repeats=2, chunks=(1, 4), batches=(1, 2))
    assert {size: len(times) for size, times in prefill.items()} == {"1": 2, "4": 2}
    assert {size: len(times) for size, times in decode.items()} == {"1": 2, "2": 2}
    assert min(*prefill["4"], *decode["2"]) > 0


def test_a_timed_run_writes_the_greedy_text() -> None:
    model = load("lab-100k", "cpu", "float64")
    prompt = model.tokenizer.encode("At 04:17")
    run = time_run(model, prompt, new_tokens=9, batch=3)
    assert list(run.tokens) == generate(model, [prompt], 9, ignore_eos=True)[0]
    assert len(run.steps) == 8
    assert run.prefill > 0


@pytest.mark.parametrize(("new", "batch"), [(0, 1), (5, 0), (2_000, 1)])
def test_a_run_of_no_size_is_an_error(new: int, batch: int) -> None:
    with pytest.raises(ModelError):
        time_run(load("lab-100k", "cpu"), [0, 7], new, batch)


@pytest.mark.parametrize(
    ("dear", "cheap", "expected"),
    [
        ([9, 10, 10, 11], [1, 1, 1, 1], "yes"),
        ([1, 1, 1, 1], [1, 1, 1, 1], "no"),
        ([1, 1, 9, 9], [1, 1, 1, 1], "unknown"),
        ([9, 9, 9], [1, 1, 1, 1], "unknown"),
    ],
)
def test_verdicts_have_three_values(dear: list[float], cheap: list[float], expected: str) -> None:
    assert verdict(dear, cheap) == expected


def test_claims_come_from_the_samples() -> None:
    made = claims({"1": [4e-3] * 5, "8": [8e-3] * 5}, {"1": [4e-3] * 5, "4": [5e-3] * 5}, {})
    assert made["prefill_us_per_token"] == {"1": 4000.0, "8": 1000.0}
    assert made["a_decoded_token_costs_more_than_a_prefilled_one"] == "yes"
    assert made["a_batched_token_costs_less_than_a_lonely_one"] == "yes"
