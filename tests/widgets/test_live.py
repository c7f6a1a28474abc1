"""The picture of a live run is a function of its numbers; the settings follow the controls; a run needs no browser."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest

from lab.core.endings import Reason
from lab.widgets import Values
from lab.widgets.live import (
    UNBOUNDED,
    LiveExplorer,
    LiveRun,
    LiveTick,
    live_settings,
    live_svg,
    live_text,
)

TICKS = (
    LiveTick(0, 1, 12, 9, 1, "decode"),
    LiveTick(1, 0, 40, 37, 1, "parked"),
    LiveTick(2, 2, 42, 39, 3, "parked"),
)
RUN = LiveRun(Values(deadline=3), True, 0.05, TICKS, Reason.OVERALL_DEADLINE, 200, 42, 39, 3)


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter() if element.tag.endswith("text")]


def test_the_text_says_where_the_tokens_are() -> None:
    assert live_text(RUN).splitlines() == [
        "tick    0  1  2",
        "takes   1  0  2",
        "read    1  1  3",
        "sockets 8 36 36",
        "queue   3  3  3",
        "ends as overall_deadline, HTTP status 200",
        "generated 42, sent 39, read 3: 36 in the sockets, 3 in the server's queue",
    ]


def test_the_picture_is_well_formed_and_says_the_same() -> None:
    shown = texts(live_svg(RUN))
    assert "Live: capacity 3, deadline 3, small sockets" in shown
    assert "ends as overall_deadline, HTTP status 200" in shown
    assert shown.count("36") == 2  # the two ticks with a full socket, written into their bars
    assert live_svg(RUN) == live_svg(RUN)


def test_the_picture_depends_on_the_numbers() -> None:
    other = replace(RUN, ticks=(*TICKS[:2], replace(TICKS[2], sent=40)))
    assert live_svg(other) != live_svg(RUN)


def test_bars_stack_up_to_what_was_generated() -> None:
    """The largest bar fills the height of the chart, whatever the numbers are."""
    for factor in (1, 10):
        ticks = tuple(
            replace(t, generated=factor * t.generated, sent=factor * t.sent, read=factor * t.read)
            for t in TICKS
        )
        root = ET.fromstring(live_svg(replace(RUN, ticks=ticks)))
        boxes = [e for e in root.iter() if e.tag.endswith("rect") and e.get("stroke") == "#111111"]
        tops = [float(box.get("y", "0")) for box in boxes]
        assert min(tops) == pytest.approx(52)


def test_a_run_that_ended_before_its_first_tick() -> None:
    empty = replace(RUN, ticks=(), generated=0, sent=0, read=0, status=504)
    assert "HTTP status 504" in live_text(empty)
    assert "ends as overall_deadline, HTTP status 504" in texts(live_svg(empty))


def test_the_picture_shows_no_bound_and_no_deadline() -> None:
    run = replace(RUN, values=Values(capacity=None, deadline=None), small=False)
    assert "Live: no bound, no deadline, the system's sockets" in texts(live_svg(run))


@pytest.mark.parametrize(("capacity", "expected"), [(3, 3), (None, UNBOUNDED)])
def test_the_server_gets_the_capacity(capacity: int | None, expected: int) -> None:
    assert live_settings(Values(capacity=capacity)).capacity == expected


def test_the_sockets_are_a_setting() -> None:
    assert live_settings(Values(), small=True).socket_send_buffer == 4096
    assert live_settings(Values(), small=False).socket_send_buffer is None


def test_the_button_runs_the_present_values(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Values, bool]] = []

    def fake(values: Values, *, small: bool, **server: Any) -> LiveRun:
        asked.append((values, small))
        return replace(RUN, values=values)

    monkeypatch.setattr("lab.widgets.live.run_live", fake)
    explorer = LiveExplorer(small=False)
    assert explorer.run is None
    assert explorer.html == ""
    explorer.panel.values = Values(capacity=5, drain=(3, 3), deadline=2)
    explorer._button.click()
    assert asked == [(Values(capacity=5, drain=(3, 3), deadline=2), False)]
    assert "capacity 5" in explorer.html
    assert not explorer._button.disabled
