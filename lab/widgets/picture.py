"""A run as a picture and as text: pure functions of a ``TraceRun``, so that a test can read what a reader sees.

The picture is a timeline, one column a tick. Tokens flow down: what the model makes, what waits (the oldest
at the bottom), what the reader takes. ``trace_text`` says the same in characters.
"""

from collections.abc import Iterator, Mapping

from lab.core.trace import Tick, TraceRun
from lab.widgets import svg

MAX_COLUMNS = 40  # ticks drawn; a longer run says how many are left out
MAX_STACK = 10  # waiting events drawn in one column
_LEFT, _COLUMN, _BOX, _ROW = 92, 46, 34, 24
_TOP = 66  # of the lane in which the model makes tokens


def trace_svg(run: TraceRun, title: str | None = None) -> str:
    """The timeline of one run, as SVG with a title and a description for those who do not see it."""
    width, height = _size(run)
    hatch = svg.hatch_id(repr(run.settings))
    return svg.picture(
        width,
        height,
        _body(run, _title(run) if title is None else title, hatch),
        title=f"Trace: {_title(run) if title is None else title}",
        description=trace_text(run),
        hatch=hatch,
    )


def comparison_svg(runs: Mapping[str, TraceRun], columns: int = 2) -> str:
    """Several runs side by side on one scale, each under its name."""
    cells = list(runs.items())
    hatch = svg.hatch_id(repr([run.settings for _, run in cells]))
    width = max(_size(run)[0] for _, run in cells)
    parts, y = [], 0
    for first in range(0, len(cells), columns):
        row = cells[first : first + columns]
        for column, (name, run) in enumerate(row):
            body = "".join(_body(run, name, hatch, legend=False))
            parts.append(f"<g transform='translate({column * width:g} {y:g})'>{body}</g>")
        y += max(_size(run)[1] for _, run in row) - _ROW + 10
    parts += _legend(10, y, hatch)
    return svg.picture(
        width * min(columns, len(cells)),
        y + _ROW,
        parts,
        title="Traces side by side",
        description="\n\n".join(f"{name}\n{trace_text(run)}" for name, run in cells),
        hatch=hatch,
    )


def trace_text(run: TraceRun) -> str:
    """The timeline in characters: one column a tick, then how it ended and what became of the tokens."""
    drain = run.settings.drain
    rows = {
        "tick": [str(tick.tick) for tick in run.ticks],
        "made": [_made(tick) for tick in run.ticks],
        "waiting": [str(len(tick.queued)) for tick in run.ticks],
        "reads": [str(drain[tick.tick]) if tick.tick < len(drain) else "0" for tick in run.ticks],
        "sent": [tick.drained or "." for tick in run.ticks],
    }
    wide = [max(len(row[column]) for row in rows.values()) for column in range(len(run.ticks))]
    lines = [
        f"{name:8}" + " ".join(f"{value:>{size}}" for value, size in zip(row, wide, strict=True))
        for name, row in rows.items()
    ]
    return "\n".join([*lines, *_footing(run)])


def _footing(run: TraceRun) -> list[str]:
    """The lines under both, the picture and its text."""
    return [line for line in (ending_line(run), token_line(run), neighbour_line(run)) if line]


def ending_line(run: TraceRun) -> str:
    """How the run ended, and who came too late for that."""
    late = f" (too late: {', '.join(run.late)})" if run.late else ""
    return f"ends in tick {run.end}: {run.reason}{late}"


def token_line(run: TraceRun) -> str:
    """What became of the tokens, and how often the request was paused."""
    waste = f"{len(run.dropped)}/{len(run.generated)} = {run.waste:.0%}" if run.waste is not None else "none"
    paused = ", ".join(str(tick) for tick in run.paused) or "never"
    return (
        f"generated {_short(run.generated)}, sent {_short(run.sent)}, dropped {_short(run.dropped)}, "
        f"paused {_short(paused)}, waste {waste}"
    )


def neighbour_line(run: TraceRun) -> str:
    """Who else had to wait, or nothing."""
    waits = ", ".join(str(tick) for tick in run.neighbour.stalled)
    return f"the neighbour waits in ticks {_short(waits)}" if waits else ""


def _short(content: str) -> str:
    """A long text by its start and its length, so that the line stays one line."""
    return content if 0 < len(content) <= 30 else f"{content[:12]}... ({len(content)})" if content else "-"


def _made(tick: Tick) -> str:
    if tick.lost:
        return f"{tick.lost}!"
    return tick.generated or ("=" if tick.paused else ".")


def _title(run: TraceRun) -> str:
    settings = run.settings
    parts = [settings.policy]
    if settings.policy not in ("unbounded", "coalesce"):
        parts.append("no bound" if settings.capacity is None else f"capacity {settings.capacity}")
    if settings.low is not None and settings.policy == "park":
        parts.append(f"low {settings.low}")
    parts.append("no deadline" if settings.deadline is None else f"deadline {settings.deadline}")
    return ", ".join(parts)


def _events(run: TraceRun, tick: Tick) -> list[str]:
    """What waits as events: a merged event is one box."""
    if run.settings.policy == "coalesce":
        return [tick.queued] if tick.queued else []
    return list(tick.queued)


def _bound(run: TraceRun) -> int | None:
    if run.settings.policy == "coalesce":
        return 1
    return None if run.settings.policy == "unbounded" else run.settings.capacity


def _stack(run: TraceRun) -> int:
    """How many places the waiting lane has."""
    most = max(len(_events(run, tick)) for tick in run.ticks)
    return max(1, min(MAX_STACK, max(most, _bound(run) or 0)))


def _size(run: TraceRun) -> tuple[int, int]:
    columns = max(9, min(len(run.ticks), MAX_COLUMNS))
    return _LEFT + columns * _COLUMN + 14, _TOP + (_stack(run) + 3) * _ROW + 50 + 19 * len(_footing(run))


def _body(run: TraceRun, title: str, hatch: str, legend: bool = True) -> Iterator[str]:
    places = _stack(run)
    queue = _TOP + _ROW + 10
    reader = queue + places * _ROW + 10
    yield svg.text(10, 22, title, size=16, anchor="start", bold=True)
    labels = ((46, "tick"), (_TOP + 16, "model makes"), (queue + places * _ROW - 8, "waiting"))
    for y, label in (*labels, (reader + 16, "reader gets"), (reader + _ROW + 16, "reader takes")):
        yield svg.text(_LEFT - 10, y, label, size=12, anchor="end")
    shown = run.ticks[:MAX_COLUMNS]
    for column, tick in enumerate(shown):
        x = _LEFT + column * _COLUMN
        yield svg.text(x + _COLUMN / 2, 46, tick.tick, size=12, bold=tick.ending is not None)
        yield from _column(run, tick, x, queue, reader, hatch)
    yield from _bound_line(run, queue, places, len(shown))
    foot = reader + 2 * _ROW + 22
    for number, line in enumerate(_footing(run)):
        yield svg.text(10, foot, line, size=12 if number else 13, anchor="start", bold=not number)
        foot += 19
    if len(run.ticks) > MAX_COLUMNS:
        left_out = f"ticks {MAX_COLUMNS} to {run.end} are not drawn"
        yield svg.text(10, foot, left_out, size=12, anchor="start")
    elif legend:
        yield from _legend(10, foot - 9, hatch)


def _column(run: TraceRun, tick: Tick, x: float, queue: float, reader: float, hatch: str) -> Iterator[str]:
    inner = x + (_COLUMN - _BOX) / 2
    if tick.ending is not None:
        yield svg.box(x + 1, 52, _COLUMN - 2, reader + _ROW + 24 - 52, "#fbe9df", stroke=svg.VERMILLION)
    if tick.paused:
        yield svg.box(inner, _TOP, _BOX, _ROW - 3, f"url(#{hatch})", stroke=svg.GREY)
    elif tick.lost:
        yield from _token(inner, _TOP, tick.lost, svg.ROSE, lost=True)
    elif tick.generated:
        yield from _token(inner, _TOP, tick.generated, svg.SKY)
    yield from _waiting(run, tick, inner, queue)
    if tick.drained:
        yield from _token(inner, reader, tick.drained, svg.GREEN, radius=9)
    drain = run.settings.drain
    takes = drain[tick.tick] if tick.tick < len(drain) else 0
    yield svg.text(
        x + _COLUMN / 2, reader + _ROW + 16, takes, bold=takes > 0, fill=svg.INK if takes else svg.GREY
    )


def _waiting(run: TraceRun, tick: Tick, x: float, top: float) -> Iterator[str]:
    events, places, bound = _events(run, tick), _stack(run), _bound(run)
    dropped = tick.ending is not None
    for place in range(places):
        y = top + (places - 1 - place) * _ROW
        if place == places - 1 and len(events) > places:
            yield svg.text(x + _BOX / 2, y + 16, f"+{len(events) - place}", size=12)
        elif place < len(events):
            yield from _token(x, y, events[place], svg.ROSE if dropped else svg.ORANGE, lost=dropped)
        elif bound is not None and place < bound and not dropped:
            yield svg.box(x, y, _BOX, _ROW - 3, "none", stroke=svg.FAINT)


def _token(
    x: float, y: float, content: str, fill: str, *, radius: int = 0, lost: bool = False
) -> Iterator[str]:
    yield svg.box(x, y, _BOX, _ROW - 3, fill, radius=radius, dash=lost)
    if lost:
        yield svg.cross(x, y, _BOX, _ROW - 3)
    yield svg.text(x + _BOX / 2, y + 16, content, size=svg.fit(content, _BOX), bold=True)


def _bound_line(run: TraceRun, queue: float, places: int, columns: int) -> Iterator[str]:
    """The high mark, where the queue has one that fits into the picture."""
    bound = _bound(run)
    if bound is None or bound > places:
        return
    y = queue + (places - bound) * _ROW - 4
    yield svg.line(_LEFT, y, _LEFT + columns * _COLUMN, y, dash=True)
    yield svg.text(_LEFT - 10, y + 4, "bound", size=11, anchor="end", fill=svg.GREY)


def _legend(x: float, y: float, hatch: str) -> Iterator[str]:
    kinds = (
        ("made", svg.SKY, 0, False),
        ("waiting", svg.ORANGE, 0, False),
        ("sent", svg.GREEN, 6, False),
        ("dropped", svg.ROSE, 0, True),
        ("paused", f"url(#{hatch})", 0, False),
    )
    for name, fill, radius, lost in kinds:
        yield svg.box(x, y, 16, 12, fill, radius=radius, dash=lost)
        if lost:
            yield svg.cross(x, y, 16, 12)
        yield svg.text(x + 21, y + 11, name, size=12, anchor="start")
        x += 38 + 7.4 * len(name)
