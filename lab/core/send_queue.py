"""Backpressure for one request: credits on the engine's side, a bounded queue on the request's side.

One credit is one event. The engine takes a credit before it computes a token, and the request gives it
back when the event was handed to the socket, so the queue is never asked to hold more than ``capacity``.
The two halves share nothing but the messages between them: the engine never waits for a client.

``capacity`` is the high mark. There the request is parked, and it is armed again when no more than ``low``
credits are out. A wide gap between the marks means rare, long pauses; the default, ``capacity - 1``, means
short ones. For the six policies built on these two halves see ``lab.core.trace``.
"""

from collections import deque
from typing import Any, Generic, TypeVar

from lab.core.errors import CapacityError

T = TypeVar("T")


class Credits:
    """How many events of one request may still be made before its reader must catch up.

    ``outstanding`` are the credits lent: reserved, queued or being written. ``parked`` is True from the
    first refused reserve at the high mark until ``outstanding`` falls to ``low``.
    ``capacity`` None means no bound; such a request is never parked.
    """

    __slots__ = ("capacity", "low", "outstanding", "parked")

    def __init__(self, capacity: int | None, low: int | None = None) -> None:
        """:raises CapacityError: unless ``0 <= low < capacity``, or ``low`` is given without a capacity."""
        if capacity is None:
            if low is not None:
                raise CapacityError("low needs a capacity: without a high mark there is nothing to fall from")
        else:
            _check_positive("capacity", capacity)
            low = capacity - 1 if low is None else low
            if isinstance(low, bool) or not isinstance(low, int) or not 0 <= low < capacity:
                raise CapacityError(
                    f"the marks must be 0 <= low < capacity, not low={low}, capacity={capacity}"
                )
        self.capacity = capacity
        self.low = low
        self.outstanding = 0
        self.parked = False

    def reserve(self) -> bool:
        """Takes the credit for one token that is about to be computed.

        :returns: False if there is none; the request is then parked, and stays so above ``low``.
        """
        if self.parked:
            return False
        if self.capacity is not None and self.outstanding >= self.capacity:
            self.parked = True
            return False
        self.outstanding += 1
        return True

    def cancel(self) -> bool:
        """Gives back the credit of a token that made no event: half a character, or a held stop string.

        :returns: True if this re-armed a parked request, as ``give_back`` does.
        :raises CapacityError: when no credit is out.
        """
        return self.give_back(1)

    def give_back(self, n: int) -> bool:
        """``n`` events were handed over.

        :returns: True if this call re-armed a parked request: exactly once per crossing of the low mark.
        :raises CapacityError: when ``n`` is negative or more than is out. Nothing is changed then.
        """
        if not 0 <= n <= self.outstanding:
            raise CapacityError(f"cannot give back {n} credits: {self.outstanding} are out")
        self.outstanding -= n
        if self.parked and self.low is not None and self.outstanding <= self.low:
            self.parked = False
            return True
        return False

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {name: getattr(self, name) for name in ("capacity", "low", "outstanding", "parked")}

    def __repr__(self) -> str:
        bound = "unbounded" if self.capacity is None else f"of {self.capacity}, low {self.low}"
        return f"Credits({self.outstanding} {bound}{', parked' if self.parked else ''})"


class SendQueue(Generic[T]):
    """The events of one request that its reader has not taken yet, in order.

    Two bounds: events and bytes. With credits the first is never hit, so a put beyond it is a bug and
    raises instead of dropping. The second can be, since the size of an event is known only when it is made:
    the owner of the request decides what that means. ``high_water`` is the longest that the queue ever was.
    """

    __slots__ = ("_items", "bytes", "capacity", "high_water", "max_bytes")

    def __init__(self, capacity: int | None, max_bytes: int | None = None) -> None:
        """:raises CapacityError: when a bound is not a positive whole number. None means no bound."""
        if capacity is not None:
            _check_positive("capacity", capacity)
        if max_bytes is not None:
            _check_positive("max_bytes", max_bytes)
        self._items: deque[tuple[T, int]] = deque()
        self.capacity = capacity
        self.max_bytes = max_bytes
        self.bytes = 0
        self.high_water = 0

    def put(self, item: T, size: int) -> None:
        """Appends an event of ``size`` bytes.

        :raises CapacityError: when a bound would be broken. Nothing is changed then.
        """
        items = self._items
        if self.capacity is not None and len(items) >= self.capacity:
            raise CapacityError(f"the queue holds {len(items)} events and may hold no more")
        if size < 0:
            raise CapacityError(f"an event has a size in bytes, not {size}")
        if self.max_bytes is not None and self.bytes + size > self.max_bytes:
            raise CapacityError(f"{self.bytes} + {size} bytes are more than the {self.max_bytes} allowed")
        items.append((item, size))
        self.bytes += size
        if len(items) > self.high_water:
            self.high_water = len(items)

    def take(self) -> T | None:
        """The oldest event, or None when there is none."""
        if not self._items:
            return None
        item, size = self._items.popleft()
        self.bytes -= size
        return item

    def drop_all(self) -> list[T]:
        """Empties the queue and returns what was in it, so that the owner can count what is lost."""
        dropped = [item for item, _ in self._items]
        self._items.clear()
        self.bytes = 0
        return dropped

    def __len__(self) -> int:
        return len(self._items)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {"events": len(self._items), "bytes": self.bytes, "high_water": self.high_water}

    def __repr__(self) -> str:
        bound = "unbounded" if self.capacity is None else f"of {self.capacity}"
        return f"SendQueue({len(self._items)} {bound}, {self.bytes} bytes)"


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CapacityError(f"{name} must be a whole number of at least 1, not {value!r}")
