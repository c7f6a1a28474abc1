"""The bench of the trace: its sides agree, its claims follow from its samples."""

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.bench import trace as bench
from lab.bench.simpy_trace import SimpyTrace, load_simpy
from lab.core.trace import POLICIES, TraceSettings


def test_each_sampled_cell_of_the_sweep_is_the_scalar_run() -> None:
    samples = bench.measure(seconds=0)
    assert set(samples["rates"]) >= {"grid", "scalar"}
    assert all(len(rates) >= 15 for rates in samples["rates"].values())


def test_a_side_that_differs_stops_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bench.scalar
    monkeypatch.setattr(bench, "scalar", lambda one: (*right(one)[:4], 99, right(one)[5]))
    with pytest.raises(bench.Disagreement, match="scalar differs"):
        bench.measure(seconds=0)


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_a_time_that_is_none_is_one_line(seconds: str) -> None:
    result = CliRunner().invoke(bench.command, ["--seconds", seconds])
    assert result.exit_code == 2
    assert "--seconds" in result.output.splitlines()[-1]


def test_claims_follow_from_the_samples() -> None:
    report = bench.claims({"grid": [900.0] * 15, "scalar": [2.0] * 15, "simpy": [4.0] * 15})
    assert report["grid_cells_per_second"] == 900
    assert (report["grid_to_scalar"]["median"], report["grid_to_scalar"]["verdict"]) == (450, "met")
    assert (report["grid_to_simpy"]["median"], report["grid_to_simpy"]["verdict"]) == (225, "missed")


@settings(max_examples=50)
@given(
    st.sampled_from(POLICIES),
    st.sampled_from(bench.MARKS),
    st.lists(st.integers(0, 3), min_size=1, max_size=9),
    st.none() | st.integers(0, 10),
)
def test_the_simpy_side_runs_the_same_trace(
    policy: str, marks: tuple[int | None, int | None], drain: list[int], deadline: int | None
) -> None:
    simpy = load_simpy()
    if simpy is None:
        pytest.skip("SimPy is not installed")
    one = TraceSettings(marks[0], tuple(drain), deadline, marks[1], policy)
    assert SimpyTrace(simpy, one).run() == bench.scalar(one)
