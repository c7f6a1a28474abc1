"""The controls without a browser: set, read, click, and be told once."""

import pytest

from lab.core.errors import CapacityError, TraceError
from lab.core.grid import run_grid
from lab.widgets import ControlPanel, TraceExplorer, Values, parse_drain, trace_text, waste_map_svg
from lab.widgets.explorer import settings_of
from lab.widgets.panel import CAPACITIES, DEADLINES


def watched(**options: object) -> tuple[ControlPanel, list[Values]]:
    seen: list[Values] = []
    return ControlPanel(on_change=seen.append, **options), seen  # type: ignore[arg-type]


def controls(panel: ControlPanel) -> tuple[object, ...]:
    capacity, text, ticks, deadline, problem = panel.widget.children
    return capacity, text, ticks, deadline, problem


def test_starts_with_the_worked_example() -> None:
    panel, seen = watched()
    assert panel.values == Values(3, (1, 0, 0, 0, 1, 0, 1, 0, 0), 8)
    assert seen == []


def test_setting_all_values_moves_all_controls_and_tells_once() -> None:
    panel, seen = watched()
    panel.values = Values(None, (2, 0), None)
    capacity, text, ticks, deadline, _ = controls(panel)
    assert (capacity.label, deadline.label, text.value) == ("unbounded", "none", "2,0")
    assert [button.description for button in ticks.children] == ["2", "0"]
    assert seen == [Values(None, (2, 0), None)]
    panel.values = Values(None, (2, 0), None)
    assert len(seen) == 1  # nothing changed


def test_sliders_reach_unbounded_and_no_deadline() -> None:
    panel, seen = watched()
    capacity, _, _, deadline, _ = controls(panel)
    capacity.index = len(CAPACITIES) - 1
    deadline.index = len(DEADLINES) - 1
    assert [values.capacity for values in seen] == [None, None]
    assert panel.values.deadline is None


def test_a_tick_cycles_from_0_to_3_and_the_text_follows() -> None:
    panel, seen = watched()
    _, text, ticks, _, _ = controls(panel)
    for _ in range(4):
        ticks.children[1].click()
    assert [values.drain[1] for values in seen] == [1, 2, 3, 0]
    assert text.value == "1,0,0,0,1,0,1,0,0"


@pytest.mark.parametrize("typed", ["0,3", " 0 3 ", "03", "0, 3"])
def test_the_text_moves_the_ticks(typed: str) -> None:
    panel, seen = watched()
    _, text, ticks, _, _ = controls(panel)
    text.value = typed
    assert seen == [Values(drain=(0, 3))]
    assert [button.description for button in ticks.children] == ["0", "3"]
    assert text.value == "0,3"
    ticks.children[1].click()  # the new buttons work too
    assert panel.values.drain == (0, 0)


@pytest.mark.parametrize("typed", ["", "4", "1,,2x", "<b>", "-1", "1.5", "0" * 2000])
def test_a_bad_text_says_so_and_changes_nothing(typed: str) -> None:
    panel, seen = watched()
    _, text, _, _, problem = controls(panel)
    text.value = typed
    assert seen == []
    assert "drain" in problem.value
    assert "<b>" not in problem.value
    panel.values = Values(capacity=1)
    assert problem.value == ""


def test_observers_come_and_go() -> None:
    panel, seen = watched()
    more: list[Values] = []
    panel.observe(more.append)
    panel.values = Values(capacity=1)
    panel.unobserve(more.append)
    panel.values = Values(capacity=2)
    assert [values.capacity for values in seen] == [1, 2]
    assert [values.capacity for values in more] == [1]


def test_a_value_without_a_stop_is_an_error_and_moves_nothing() -> None:
    panel, seen = watched()
    with pytest.raises(ValueError, match="capacity slider has no stop at 99"):
        panel.values = Values(capacity=99)
    with pytest.raises(ValueError, match="deadline slider has no stop at 99"):
        panel.values = Values(deadline=99)
    assert panel.values == Values()
    assert seen == []
    wide = ControlPanel(Values(capacity=16), capacities=(4, 16, None))
    assert wide.values.capacity == 16
    with pytest.raises(ValueError, match="no stop at 3"):
        ControlPanel(capacities=(4, 16))


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"capacity": 0}, CapacityError), ({"deadline": -1}, TraceError), ({"drain": (4,)}, TraceError)],
    ids=str,
)
def test_values_that_define_no_run_are_errors(settings: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Values(**settings)  # type: ignore[arg-type]


def test_parse_drain_is_the_inverse_of_the_text() -> None:
    assert parse_drain(Values().drain_text) == Values().drain


def test_the_explorer_shows_the_run_of_its_values() -> None:
    explorer = TraceExplorer()
    before = explorer.html
    assert explorer.run.dropped == "CDE"
    explorer.panel.values = Values(capacity=None)
    assert explorer.run.dropped == "CDEFG"
    assert explorer.html != before
    assert trace_text(explorer.run).splitlines()[-1] in explorer.html


def test_the_heat_map_has_a_cell_for_every_stop_of_the_sliders() -> None:
    explorer = TraceExplorer()
    grid = run_grid(CAPACITIES, DEADLINES, [Values().drain])
    assert waste_map_svg(explorer.run).count("width='34' height='22' fill='#") == grid.dropped.size


def test_a_client_cancels_in_the_tick_of_the_limit() -> None:
    assert settings_of(Values(deadline=None)).signals[0][0] == 9
    assert settings_of(Values(deadline=5)).signals[0][0] == 5
