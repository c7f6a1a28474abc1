"""Where "now" comes from: one Protocol, one real clock, one that a test moves by hand.

All instants in ``lab`` are seconds as ``float`` on one monotonic clock. They mean nothing by themselves;
only their differences do. Wall time is for log lines and is never subtracted.
"""

import math
import time
from typing import Protocol

from lab.core.errors import SettingsError


class Clock(Protocol):
    """Anything that tells the instant."""

    def now(self) -> float:
        """Monotonic seconds; never smaller than an earlier answer."""
        ...


class MonotonicClock:
    """The clock of the operating system that no time correction can turn back."""

    __slots__ = ()

    def now(self) -> float:
        """Monotonic seconds since an instant that the system chose."""
        return time.monotonic()


class VirtualClock:
    """A clock that stands still until it is told to move, so a test of a timeout waits for nothing."""

    __slots__ = ("_now",)

    def __init__(self, start: float = 0.0) -> None:
        """:raises SettingsError: when ``start`` is not a finite number."""
        if not math.isfinite(start):
            raise SettingsError(f"a clock starts at a finite number of seconds, not {start}")
        self._now = float(start)

    def now(self) -> float:
        """The instant, in seconds, that the last ``advance`` left."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Moves forward and returns the new instant.

        :raises SettingsError: when ``seconds`` is negative or not finite: time does not run back.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise SettingsError(f"a clock moves forward by a finite number of seconds, not {seconds}")
        self._now += seconds
        return self._now

    def __repr__(self) -> str:
        return f"VirtualClock({self._now})"
