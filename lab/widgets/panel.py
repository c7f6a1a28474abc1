"""The control panel: capacity, drain pattern and deadline. It drives whatever it is given as a callback.

The panel knows no simulator and no server. It keeps one ``Values`` and tells its observers when that
changes: once for each change, however many of its controls move with it. All of it works without a browser:
set ``panel.values`` and read it back.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets

from lab.core.errors import LabError
from lab.widgets.values import Values, parse_drain

widgets: Any = ipywidgets  # it carries no types
Observer = Callable[[Values], object]
CAPACITIES: tuple[int | None, ...] = (*range(1, 9), None)
DEADLINES: tuple[int | None, ...] = (*range(17), None)
_SHADES = ("#ffffff", "#c6dbef", "#6baed6", "#2171b5")  # a tick that reads 0, 1, 2, 3
_WIDE = {"description_width": "90px"}


class ControlPanel:
    """Three controls that stay in step with one ``Values``.

    ``capacities`` and ``deadlines`` are the stops of the two sliders, None for unbounded and for none.
    """

    def __init__(
        self,
        values: Values | None = None,
        on_change: Observer | None = None,
        *,
        capacities: Sequence[int | None] = CAPACITIES,
        deadlines: Sequence[int | None] = DEADLINES,
    ) -> None:
        """:raises ValueError: when the sliders have no stop for ``values``."""
        self._values = Values() if values is None else values
        self._observers: list[Observer] = [] if on_change is None else [on_change]
        self._syncing = False
        self._capacity = _Slider("capacity", capacities, "unbounded", self._values.capacity)
        self._deadline = _Slider("deadline", deadlines, "none", self._values.deadline)
        self._text = widgets.Text(
            description="drain pattern",
            value=self._values.drain_text,
            continuous_update=False,
            style=_WIDE,
            layout={"width": "400px"},
        )
        self._problem = widgets.HTML()
        self._ticks = widgets.HBox(
            layout={"flex_flow": "row wrap", "margin": "0 0 0 96px", "max_width": "350px"}
        )
        self._show_ticks()
        self._capacity.widget.observe(self._from_sliders, "index")
        self._deadline.widget.observe(self._from_sliders, "index")
        self._text.observe(self._from_text, "value")
        self.widget = widgets.VBox(
            [self._capacity.widget, self._text, self._ticks, self._deadline.widget, self._problem]
        )

    @property
    def values(self) -> Values:
        """What the controls show now. Assign to move them all at once."""
        return self._values

    @values.setter
    def values(self, values: Values) -> None:
        """:raises ValueError: when the sliders have no stop for the new values; nothing moves then."""
        self._capacity.check(values.capacity)
        self._deadline.check(values.deadline)
        self._set(values)

    def observe(self, observer: Observer) -> None:
        """Calls ``observer(values)`` after every change from now on."""
        self._observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """Stops calling it. :raises ValueError: when it was never called."""
        self._observers.remove(observer)

    def _set(self, values: Values) -> None:
        if values == self._values:
            self._sync()  # a text may say the same in other words
            return
        self._values = values
        self._sync()
        for observer in tuple(self._observers):
            observer(values)

    def _sync(self) -> None:
        """Moves every control to the present values, without listening to them meanwhile."""
        self._syncing = True
        try:
            self._capacity.value = self._values.capacity
            self._deadline.value = self._values.deadline
            self._text.value = self._values.drain_text
            self._problem.value = ""
            self._show_ticks()
        finally:
            self._syncing = False

    def _show_ticks(self) -> None:
        """One button a tick; made anew only when the pattern has another length."""
        drain = self._values.drain
        if len(self._ticks.children) != len(drain):
            self._ticks.children = tuple(self._button(tick) for tick in range(len(drain)))
        for tick, (button, takes) in enumerate(zip(self._ticks.children, drain, strict=True)):
            button.description = str(takes)
            button.style.button_color = _SHADES[takes]
            button.style.text_color = "#ffffff" if takes == 3 else "#111111"
            button.tooltip = f"tick {tick}: the reader takes {takes}. Click for one more, after 3 comes 0"

    def _button(self, tick: int) -> Any:
        button = widgets.Button(layout={"width": "30px", "padding": "0", "border": "1px solid #777"})
        button.on_click(lambda _: self._set(self._values.cycled(tick)))
        return button

    def _from_sliders(self, _: object) -> None:
        if not self._syncing:
            self._set(Values(self._capacity.value, self._values.drain, self._deadline.value))

    def _from_text(self, change: Any) -> None:
        if self._syncing:
            return
        try:
            drain = parse_drain(change["new"])
        except LabError as error:
            self._problem.value = f"<span role='alert' style='color:#a33b00'>{escape(str(error))}</span>"
            return
        self._set(Values(self._values.capacity, drain, self._values.deadline))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)


class _Slider:
    """A slider over stops, of which one may be None: that is why it works by index and not by value."""

    def __init__(self, name: str, stops: Sequence[int | None], none: str, value: int | None) -> None:
        self.name, self.stops = name, list(stops)
        self.check(value)
        self.widget = widgets.SelectionSlider(
            description=name,
            options=[none if stop is None else str(stop) for stop in stops],
            index=self.stops.index(value),
            style=_WIDE,
            layout={"width": "400px"},
        )

    def check(self, value: int | None) -> None:
        if value not in self.stops:
            raise ValueError(f"the {self.name} slider has no stop at {value}")

    @property
    def value(self) -> int | None:
        index: int = self.widget.index
        return self.stops[index]

    @value.setter
    def value(self, value: int | None) -> None:
        self.widget.index = self.stops.index(value)
