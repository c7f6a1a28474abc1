"""The three controls on a live server: capacity, drain pattern and deadline of one real request.

``run_live`` starts a server in this process, asks it for a long text and reads it as the drain pattern says,
one entry a tick of ``tick_seconds``. What it saw is a ``LiveRun``: plain numbers, one row a tick. The picture
and the text are pure functions of that. Where the simulator of chapter 01 has one queue, a live server has
several places between token and reader, and the picture shows how many tokens are in each.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ipywidgets

from lab.core.endings import Reason
from lab.core.limits import LimitSettings
from lab.core.record import RequestRecord
from lab.server.local import LocalServer
from lab.server.service import HostFactory
from lab.server.settings import ServerSettings
from lab.widgets import svg
from lab.widgets.panel import ControlPanel
from lab.widgets.reader import Reader, ReaderError
from lab.widgets.values import Values

widgets: Any = ipywidgets  # it carries no types
TICK = 0.05  # seconds
UNBOUNDED = 1 << 20  # events: more than any request of this workbook makes
SMALL_BUFFER = 4096  # bytes
_BODY: dict[str, Any] = {
    "model": "lab-1m", "prompt": "What is backpressure?", "stream": True, "temperature": 0,
    "ignore_eos": True, "max_tokens": 800,
}  # fmt: skip
_LEFT, _TOP, _COLUMN, _HIGH = 104, 52, 40, 190


@dataclass(frozen=True, slots=True)
class LiveTick:
    """The end of one tick: what the reader could take in it, and totals since the start.

    ``generated`` and ``sent`` are tokens as the server counts them, ``read`` events as the reader does; an
    event carries one token, or a few where they make one character together. ``state`` is the request's.
    """

    tick: int
    takes: int
    generated: int
    sent: int
    read: int
    state: str


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One live request. ``small``: the socket buffers of server and reader were shrunk."""

    values: Values
    small: bool
    tick_seconds: float
    ticks: tuple[LiveTick, ...]
    reason: Reason
    status: int | None
    generated: int
    sent: int
    read: int

    @property
    def in_sockets(self) -> int:
        """Tokens that the server calls sent and the reader has not seen."""
        return max(0, self.sent - self.read)

    @property
    def in_queue(self) -> int:
        """Tokens that were made and never left the server."""
        return self.generated - self.sent


def live_settings(values: Values, small: bool = True) -> ServerSettings:
    """A server with this capacity, and no limit on time but the deadline of the request."""
    return ServerSettings(
        slots=2,
        capacity=UNBOUNDED if values.capacity is None else values.capacity,
        limits=LimitSettings(stall_timeout=None, flush_timeout=0.2),
        socket_send_buffer=SMALL_BUFFER if small else None,
        write_high_water=0 if small else None,
        ping_interval=0,
    )


def run_live(
    values: Values, *, small: bool = True, tick_seconds: float = TICK, engine: Any = "thread", **server: Any
) -> LiveRun:
    """One request to a server of its own, read as ``values`` say. After the pattern the reader takes nothing.

    When the pattern and the deadline are over, the reader leaves. ``engine`` and ``server`` go to
    ``LocalServer``.
    """
    records: queue.SimpleQueue[RequestRecord] = queue.SimpleQueue()
    host: HostFactory | Any = engine
    with LocalServer(live_settings(values, small), host, on_record=records.put, **server) as local:
        deadline = values.deadline
        headers = (
            {} if deadline is None else {"X-Request-Deadline-Ms": str(_milliseconds(deadline, tick_seconds))}
        )
        began = time.monotonic()
        with Reader(
            local.url, _BODY, headers=headers, receive_buffer=SMALL_BUFFER if small else None
        ) as reader:
            ticks = tuple(_ticks(local, reader, values, began, tick_seconds))
        record = records.get(timeout=20)
    return LiveRun(
        values, small, tick_seconds, ticks, record.reason, record.http_status,
        record.generated_tokens or 0, record.sent_tokens or 0, _texts(reader),
    )  # fmt: skip


def _milliseconds(ticks: int, tick_seconds: float) -> int:
    """A deadline as its header says it: at least one, since none is left would be no request."""
    return max(1, round(ticks * tick_seconds * 1000))


def _ticks(
    local: LocalServer, reader: Reader, values: Values, began: float, tick_seconds: float
) -> Iterator[LiveTick]:
    """One row a tick, until the request has ended or pattern and deadline are over."""
    drain = values.drain
    for tick in range(max(len(drain), (values.deadline or 0) + 1)):
        ends = began + (tick + 1) * tick_seconds
        takes = drain[tick] if tick < len(drain) else 0
        if takes:
            reader.take(takes, ends - time.monotonic())
        time.sleep(max(0.0, ends - time.monotonic()))
        requests = local.snapshot()["requests"]
        if not requests or requests[0]["state"] == "ended":
            return
        (row,) = requests
        yield LiveTick(tick, takes, row["generated"], row["sent"], _texts(reader), row["state"])


def _texts(reader: Reader) -> int:
    """Events with a text in them; the ending is not one."""
    return sum('"finish_reason":null' in event.data for event in reader.events)


def until_parked(server: LocalServer, seconds: float = 30.0) -> dict[str, Any]:
    """Waits until the only request of a server is parked and nothing more of it is sent: its row of the snapshot.

    :raises ReaderError: when that does not happen in time.
    """
    until, sent = time.monotonic() + seconds, None
    while time.monotonic() < until:
        rows = server.snapshot()["requests"]
        row: dict[str, Any] = rows[0] if len(rows) == 1 else {}
        if row.get("state") == "parked" and row["sent"] == sent:
            return row
        sent = row.get("sent")
        time.sleep(0.1)
    raise ReaderError("no request came to a standstill")


def live_text(run: LiveRun) -> str:
    """The run in characters: one column a tick, then how it ended and where the tokens are."""
    rows = {
        "tick": [str(tick.tick) for tick in run.ticks],
        "takes": [str(tick.takes) for tick in run.ticks],
        "read": [str(tick.read) for tick in run.ticks],
        "sockets": [str(max(0, tick.sent - tick.read)) for tick in run.ticks],
        "queue": [str(tick.generated - tick.sent) for tick in run.ticks],
    }
    wide = [max(len(row[column]) for row in rows.values()) for column in range(len(run.ticks))]
    lines = [
        f"{name:8}" + " ".join(f"{value:>{size}}" for value, size in zip(row, wide, strict=True))
        for name, row in rows.items()
    ]
    return "\n".join([*lines, *_footing(run)])


def live_svg(run: LiveRun, title: str | None = None) -> str:
    """The run as a picture: in each tick all tokens made so far, by the place where they are."""
    name = _title(run) if title is None else title
    hatch = svg.hatch_id(f"{name} {run}")
    body = "".join(_body(run, name, hatch))
    width = _LEFT + max(12, len(run.ticks)) * _COLUMN + 14
    return svg.picture(width, _TOP + _HIGH + 118, [body], title=name, description=live_text(run), hatch=hatch)


def _title(run: LiveRun) -> str:
    values = run.values
    parts = ["no bound" if values.capacity is None else f"capacity {values.capacity}"]
    parts.append("no deadline" if values.deadline is None else f"deadline {values.deadline}")
    parts.append("small sockets" if run.small else "the system's sockets")
    return f"Live: {', '.join(parts)}"


def _footing(run: LiveRun) -> list[str]:
    return [
        f"ends as {run.reason}, HTTP status {'none' if run.status is None else run.status}",
        f"generated {run.generated}, sent {run.sent}, read {run.read}: "
        f"{run.in_sockets} in the sockets, {run.in_queue} in the server's queue",
    ]


def _body(run: LiveRun, title: str, hatch: str) -> Iterator[str]:
    yield svg.text(10, 22, title, size=16, anchor="start", bold=True)
    floor = _TOP + _HIGH
    most = max([1, *(tick.generated for tick in run.ticks)])
    for y, label in (
        (_TOP + 8, f"{most} tokens"),
        (floor, "0"),
        (floor + 18, "tick"),
        (floor + 36, "reader takes"),
    ):
        yield svg.text(_LEFT - 10, y, label, size=12, anchor="end")
    yield svg.line(_LEFT, floor, _LEFT + max(12, len(run.ticks)) * _COLUMN, floor)
    for column, tick in enumerate(run.ticks):
        x = _LEFT + column * _COLUMN
        yield svg.text(x + _COLUMN / 2, floor + 18, tick.tick, size=12)
        fill = svg.INK if tick.takes else svg.GREY
        yield svg.text(x + _COLUMN / 2, floor + 36, tick.takes, bold=tick.takes > 0, fill=fill)
        yield from _bar(x, floor, tick, most, hatch)
    for number, line in enumerate(_footing(run)):
        yield svg.text(
            10, floor + 62 + 19 * number, line, size=12 if number else 13, anchor="start", bold=not number
        )
    yield from _legend(10, floor + 96, hatch)


def _bar(x: float, floor: float, tick: LiveTick, most: int, hatch: str) -> Iterator[str]:
    """The tokens of one tick: read at the bottom, then what the sockets hold, then the queue."""
    places = (
        (tick.read, svg.GREEN),
        (max(0, tick.sent - tick.read), f"url(#{hatch})"),
        (tick.generated - tick.sent, svg.ORANGE),
    )
    y = floor
    for count, fill in places:
        high = count * _HIGH / most
        if count:
            y -= high
            yield svg.box(x + 3, y, _COLUMN - 6, high, fill)
            if high >= 15:
                yield svg.box(x + 6, y + high / 2 - 7, _COLUMN - 12, 14, "#ffffff", stroke="none")
                yield svg.text(x + _COLUMN / 2, y + high / 2 + 4, count, size=11)


def _legend(x: float, y: float, hatch: str) -> Iterator[str]:
    kinds = (
        ("in the server's queue", svg.ORANGE),
        ("called sent, not read: in the sockets", f"url(#{hatch})"),
        ("read", svg.GREEN),
    )
    for name, fill in kinds:
        yield svg.box(x, y, 16, 12, fill)
        yield svg.text(x + 21, y + 11, name, size=12, anchor="start")
        x += 44 + 6.4 * len(name)


class LiveExplorer:
    """The panel with a live server behind it: set the controls, press the button, see what became of the tokens.

    ``run`` is the last run, None before the first.
    """

    def __init__(self, values: Values | None = None, *, small: bool = True, **server: Any) -> None:
        self.panel = ControlPanel(values)
        self.small = small
        self.run: LiveRun | None = None
        self._server = server
        self._button = widgets.Button(description="Run it", button_style="primary")
        self._button.on_click(lambda _: self.go())
        self._picture = widgets.HTML(layout={"flex": "1 1 520px", "max_width": "860px"})
        controls = widgets.VBox([self.panel.widget, self._button])
        self.widget = widgets.HBox([controls, self._picture], layout={"flex_flow": "row wrap"})

    @property
    def html(self) -> str:
        """The picture of the last run, empty before the first."""
        return str(self._picture.value)

    def go(self) -> LiveRun:
        """One run with the present values."""
        self._button.disabled = True
        try:
            self.run = run_live(self.panel.values, small=self.small, **self._server)
        finally:
            self._button.disabled = False
        self._picture.value = live_svg(self.run)
        return self.run

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)
