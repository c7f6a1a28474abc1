"""The grid against the scalar simulator, cell by cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.core.errors import CapacityError, TraceError
from lab.core.grid import REASONS, all_patterns, bounded_against_unbounded, run_grid
from lab.core.trace import POLICIES, TraceSettings, run_trace


@st.composite
def marks(draw: st.DrawFn) -> tuple[int | None, int | None]:
    capacity = draw(st.none() | st.integers(1, 6))
    return capacity, None if capacity is None else draw(st.none() | st.integers(0, capacity - 1))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=60)
@given(
    pairs=st.lists(marks(), min_size=1, max_size=3),
    deadlines=st.lists(st.none() | st.integers(0, 16), min_size=1, max_size=3),
    drains=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=14), min_size=1, max_size=3),
    tokens=st.integers(1, 9),
)
def test_each_cell_is_the_scalar_run(
    policy: str,
    pairs: list[tuple[int | None, int | None]],
    deadlines: list[int | None],
    drains: list[list[int]],
    tokens: int,
) -> None:
    capacities, low = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    grid = run_grid(capacities, deadlines, drains, low=low, policy=policy, tokens=tokens)
    for i, j, k in np.ndindex(grid.sent.shape):
        run = run_trace(
            TraceSettings(capacities[i], tuple(drains[k]), deadlines[j], low[i], policy, "x" * tokens)
        )
        assert grid.generated[i, j, k] == len(run.generated)
        assert grid.sent[i, j, k] == len(run.sent)
        assert grid.dropped[i, j, k] == len(run.dropped)
        assert grid.paused[i, j, k] == len(run.paused)
        assert grid.end[i, j, k] == run.end
        assert REASONS[grid.reason[i, j, k]] is run.reason
        if policy == "block":
            assert grid.stalled[i, j, k] == len([tick for tick in run.neighbour.stalled if tick < run.end])
        np.testing.assert_equal(grid.waste[i, j, k], np.nan if run.waste is None else run.waste)


def test_an_array_of_patterns_is_the_list_of_them() -> None:
    patterns = all_patterns(3)
    assert patterns.shape == (64, 3)
    assert patterns[0].tolist() == [0, 0, 0]
    assert patterns[-1].tolist() == [3, 3, 3]
    one = run_grid([1, 2], [None, 2], patterns)
    two = run_grid([1, 2], [None, 2], patterns.tolist())
    assert (one.sent == two.sent).all()
    assert (one.end == two.end).all()


def test_an_empty_axis_gives_an_empty_grid() -> None:
    assert run_grid([], [8], [[1]]).sent.shape == (0, 1, 1)
    assert run_grid([3], [], [[1]]).sent.shape == (1, 0, 1)
    assert run_grid([3], [8, None], []).sent.shape == (1, 2, 0)


def test_the_claim_of_chapter_01_and_its_limit() -> None:
    slow = bounded_against_unbounded([1, 2, 3], list(range(7)), length=6, largest=1)
    assert slow["cells"] == 3 * 7 * 64
    assert slow["sent_same"] == slow["cells"]
    assert slow["dropped_more"] == 0
    assert slow["first"] is None
    bursty = bounded_against_unbounded([3], [6], length=6, largest=3)
    assert bursty["sent_fewer"] > 0
    assert bursty["sent_more"] == 0
    assert bursty["first"] == [0, 0, 0, 0, 2, 3]


def test_huge_capacities_are_no_bound() -> None:
    grid = run_grid([10**9, None], [8], [[0] * 8])
    assert grid.generated.ravel().tolist() == [7, 7]


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (CapacityError, {"capacities": [0]}),
        (CapacityError, {"low": [3]}),
        (CapacityError, {"low": [1, 1]}),
        (TraceError, {"deadlines": [-1]}),
        (TraceError, {"drains": [[4]]}),
        (TraceError, {"drains": [[]]}),
        (TraceError, {"drains": np.array([[4]])}),
        (TraceError, {"drains": np.array([1, 2])}),
        (TraceError, {"drains": np.array([[0.5]])}),
        (TraceError, {"policy": "hope"}),
        (TraceError, {"tokens": 0}),
    ],
    ids=str,
)
def test_bad_values_are_errors(error: type[Exception], arguments: dict[str, object]) -> None:
    values: dict[str, object] = {"capacities": [3], "deadlines": [8], "drains": [[1, 0]], **arguments}
    with pytest.raises(error):
        run_grid(**values)  # type: ignore[arg-type]
