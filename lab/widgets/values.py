"""The three controls as values: what a panel shows, what a test sets, what a server is driven by."""

from dataclasses import dataclass, replace
from typing import Self

from lab.core.errors import TraceError
from lab.core.send_queue import Credits
from lab.core.trace_settings import MAX_DRAIN, WORKED_DRAIN, check_deadline, check_drain


@dataclass(frozen=True, slots=True)
class Values:
    """One setting of the controls.

    capacity  events that may wait; None is unbounded
    drain     events that the reader takes, per tick, each 0 to 3
    deadline  the tick that ends the request; None is no deadline
    """

    capacity: int | None = 3
    drain: tuple[int, ...] = WORKED_DRAIN
    deadline: int | None = 8

    def __post_init__(self) -> None:
        """:raises CapacityError, TraceError: for values that define no run."""
        Credits(self.capacity)
        check_drain(self.drain)
        check_deadline(self.deadline)

    def cycled(self, tick: int) -> Self:
        """The same, but the reader takes one more in ``tick``; after 3 comes 0."""
        drain = list(self.drain)
        drain[tick] = (drain[tick] + 1) % (MAX_DRAIN + 1)
        return replace(self, drain=tuple(drain))

    @property
    def drain_text(self) -> str:
        """The pattern as text, ``1,0,0,2``."""
        return ",".join(map(str, self.drain))


def parse_drain(text: str) -> tuple[int, ...]:
    """A pattern from text: ``1,0,0,2``, ``1 0 0 2`` or ``1002``.

    :raises TraceError: when it is none of these
    """
    parts = text.replace(",", " ").split()
    digits = list(parts[0]) if len(parts) == 1 else parts
    if not digits or any(len(digit) != 1 or digit not in "0123" for digit in digits):
        raise TraceError(f"a drain pattern is digits from 0 to {MAX_DRAIN}, such as 1,0,0,2; not {text!r}")
    drain = tuple(map(int, digits))
    check_drain(drain)
    return drain
