"""The panel with a simulator behind it: move a control and see your own trace, and where it stands among all."""

from functools import lru_cache
from typing import Any

import ipywidgets

from lab.core.endings import Reason
from lab.core.grid import Grid, run_grid
from lab.core.trace import TraceRun, TraceSettings, run_trace
from lab.widgets import svg
from lab.widgets.heatmap import heatmap_svg
from lab.widgets.panel import CAPACITIES, DEADLINES, ControlPanel
from lab.widgets.picture import trace_svg, trace_text
from lab.widgets.values import Values

widgets: Any = ipywidgets  # it carries no types


class TraceExplorer:
    """Controls beside the picture, the map below. Everything shown is a pure function of ``panel.values``.

    ``run`` is the present run, ``html`` what the reader sees of it.
    """

    def __init__(self, values: Values | None = None, policy: str = "park") -> None:
        self.policy = policy
        self.panel = ControlPanel(values, self._show)
        self._picture = widgets.HTML(layout={"flex": "1 1 520px", "max_width": "860px"})
        self._map = widgets.HTML()
        row = widgets.HBox([self.panel.widget, self._picture], layout={"flex_flow": "row wrap"})
        self.widget = widgets.VBox([row, self._map])
        self._show(self.panel.values)

    @property
    def html(self) -> str:
        """The picture, the text under it and the heat map, as one piece of HTML."""
        return f"{self._picture.value}{self._map.value}"

    def _show(self, values: Values) -> None:
        self.run = run_trace(settings_of(values, self.policy))
        self._picture.value = run_html(self.run)  # first: this is what the reader waits for
        self._map.value = waste_map_svg(self.run)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)


def settings_of(values: Values, policy: str = "park") -> TraceSettings:
    """The run that the controls describe, with a client who cancels in the tick of the deadline."""
    last = len(values.drain) if values.deadline is None else values.deadline
    cancel = ((last, Reason.CLIENT_CANCEL),)
    return TraceSettings(values.capacity, values.drain, values.deadline, policy=policy, signals=cancel)


def run_html(run: TraceRun) -> str:
    """Picture and text of one run."""
    text = svg.escaped(trace_text(run))
    return f"<div>{trace_svg(run)}<pre style='line-height:1.3;margin:4px 0'>{text}</pre></div>"


def waste_map_svg(run: TraceRun) -> str:
    """Dropped tokens for every capacity and deadline with this reader; the present run has a frame."""
    settings = run.settings
    grid = _sweep(settings.drain, settings.policy, len(settings.tokens))
    rows, columns = list(CAPACITIES), list(DEADLINES)
    known = settings.capacity in rows and settings.deadline in columns
    return heatmap_svg(
        grid.dropped[:, :, 0],
        ["unbounded" if row is None else row for row in rows],
        ["none" if column is None else column for column in columns],
        title="tokens generated for nobody",
        row_name="capacity",
        column_name="deadline",
        largest=len(settings.tokens),
        marked=(rows.index(settings.capacity), columns.index(settings.deadline)) if known else None,
    )


@lru_cache(maxsize=64)
def _sweep(drain: tuple[int, ...], policy: str, tokens: int) -> Grid:
    return run_grid(CAPACITIES, DEADLINES, [drain], policy=policy, tokens=tokens)
