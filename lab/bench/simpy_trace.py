"""The trace of ``lab.core.trace`` as one would write it in SimPy: the other side of ``lab bench trace``.

Three processes a run (limit, reader, generator) that meet in every tick in this order. It covers the same
six policies and the low mark, so that each cell can be compared. SimPy is not a dependency: without it
there is no such bench.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from lab.core.endings import Reason
from lab.core.trace import TraceSettings


def load_simpy() -> Any | None:
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module("simpy")
    except ModuleNotFoundError:
        return None


class SimpyTrace:
    """One run, ready to go."""

    def __init__(self, simpy: Any, settings: TraceSettings) -> None:
        self._settings = settings
        self._total = len(settings.tokens)
        bounded = settings.policy not in ("unbounded", "coalesce") and settings.capacity is not None
        self._high = settings.capacity if bounded and settings.capacity else 2 * self._total + 1
        own_low = settings.low if settings.policy == "park" else None
        self._low = self._high - 1 if own_low is None else own_low
        self._queue: list[int] = []
        self.generated = self.sent = self.lost = self.paused = 0
        self._parked = False
        self._env = simpy.Environment()
        self._over = self._env.event()
        # processes that wake in the same tick run in the order in which they were started
        for process in (self._limit, self._reader, self._generator):
            self._env.process(process())

    def run(self) -> tuple[int, int, int, int, int, Reason]:
        """Generated, sent and dropped tokens, pauses, the tick of the ending and its reason."""
        reason: Reason = self._env.run(until=self._over)
        dropped = self.lost + sum(self._queue)
        return self.generated, self.sent, dropped, self.paused, int(self._env.now), reason

    def _end(self, reason: Reason) -> None:
        if not self._over.triggered:
            self._over.succeed(reason)

    def _limit(self) -> Iterator[Any]:
        if self._settings.last_tick:  # a timeout of 0 would come after the other processes have begun
            yield self._env.timeout(self._settings.last_tick)
        self._end(self._settings.limit)

    def _reader(self) -> Iterator[Any]:
        for takes in self._settings.drain:
            if self._over.triggered:
                return
            for _ in range(min(takes, len(self._queue))):
                self.sent += self._queue.pop(0)
            if self.generated == self._total and not self._queue:
                self._end(Reason.STOP)
            yield self._env.timeout(1)

    def _generator(self) -> Iterator[Any]:
        while self.generated < self._total and not self._over.triggered:
            self._generate()
            yield self._env.timeout(1)

    def _generate(self) -> None:
        policy, waiting = self._settings.policy, len(self._queue)
        if policy == "coalesce":
            self._queue = [sum(self._queue) + 1]
        elif policy == "drop" and waiting >= self._high:
            self.lost += 1
        elif policy == "fail" and waiting >= self._high:
            self._end(Reason.SLOW_CONSUMER)
            return
        else:
            self._parked = waiting > self._low if self._parked else waiting >= self._high
            if self._parked:
                self.paused += 1
                return
            self._queue.append(1)
        self.generated += 1
