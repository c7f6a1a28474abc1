"""The recurrence against the simulator, and against itself without a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.errors import CapacityError, TraceError
from lab.core.recurrence import queue_lengths
from lab.core.trace import TraceSettings, run_trace
from lab.core.trace_settings import WORKED_DRAIN


def test_the_worked_example() -> None:
    assert queue_lengths(3, WORKED_DRAIN, 8) == [1, 2, 3, 3, 3, 3, 3, 3]
    assert queue_lengths(None, WORKED_DRAIN, 8) == [1, 2, 3, 4, 4, 5, 5, 6]


@given(
    st.none() | st.integers(1, 5),
    st.lists(st.integers(0, 3), min_size=1, max_size=12).map(tuple),
    st.integers(0, 14),
)
def test_gives_the_lengths_of_the_simulator(capacity: int | None, drain: tuple[int, ...], ticks: int) -> None:
    run = run_trace(TraceSettings(capacity=capacity, drain=drain, deadline=ticks, tokens="x" * 20))
    assert queue_lengths(capacity, drain, ticks) == [len(tick.queued) for tick in run.ticks[:-1]]


def test_bad_values_are_errors() -> None:
    with pytest.raises(CapacityError):
        queue_lengths(0, (1,), 3)
    with pytest.raises(TraceError):
        queue_lengths(3, (9,), 3)
