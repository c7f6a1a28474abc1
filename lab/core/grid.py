"""Many traces at once: every capacity x deadline x drain pattern, one array operation a tick.

Each cell is equal to ``lab.core.trace.run_trace`` with the same settings; a property test holds the two
together. Two facts make the sweep fast enough to answer while a slider moves. All capacities and patterns
advance together, so a tick costs a few array operations, not a few per run. And a deadline changes nothing
before it falls, so all deadlines are read off one sweep.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.core.endings import Reason
from lab.core.errors import CapacityError, TraceError
from lab.core.send_queue import Credits
from lab.core.trace_settings import MAX_DRAIN, MAX_TICKS, POLICIES, check_deadline, check_drain

Counts = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]
REASONS = (Reason.STOP, Reason.SLOW_CONSUMER, Reason.OVERALL_DEADLINE)  # what ``Grid.reason`` indexes
_STOP, _SLOW, _DEADLINE = range(3)
_FIELDS = ("generated", "sent", "dropped", "paused", "stalled", "end", "reason")
_NO_BOUND = MAX_TICKS + 1  # no queue of a trace grows as long


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The figures of all runs, as arrays of shape ``(capacities, deadlines, drains)``.

    generated, sent, dropped  tokens
    paused, stalled           ticks of the request, and of its neighbour under the policy ``block``
    end, reason               the tick of the ending, and its index in ``REASONS``
    """

    generated: Counts
    sent: Counts
    dropped: Counts
    paused: Counts
    stalled: Counts
    end: Counts
    reason: Counts

    @property
    def waste(self) -> npt.NDArray[np.float64]:
        """Dropped over generated; NaN where nothing was generated."""
        made = self.generated.astype(np.float64)
        share = np.full(made.shape, np.nan)
        np.divide(self.dropped, made, out=share, where=made > 0)
        return share


def run_grid(
    capacities: Sequence[int | None],
    deadlines: Sequence[int | None],
    drains: Sequence[Sequence[int]] | npt.NDArray[np.int16],
    *,
    low: Sequence[int | None] | None = None,
    policy: str = "park",
    tokens: int = 7,
) -> Grid:
    """Runs every combination of a capacity, a deadline and a drain pattern.

    ``low`` holds one low mark for each capacity, by default ``capacity - 1``. Patterns may differ in length.

    :raises CapacityError: for marks that mean nothing. :raises TraceError: for all else.
    """
    if policy not in POLICIES:
        raise TraceError(f"policy must be one of {', '.join(POLICIES)}, not {policy!r}")
    if not 1 <= tokens <= MAX_TICKS:
        raise TraceError(f"a trace has 1 to {MAX_TICKS} tokens")
    for deadline in deadlines:
        check_deadline(deadline)
    high, marks = _marks(capacities, low)
    takes, lengths = _patterns(drains)
    sweep = _Sweep(high, marks, takes, policy, tokens)
    out = {name: np.zeros((len(high), len(deadlines), len(takes)), np.int16) for name in _FIELDS}
    last = max((int(lengths.max(initial=0)) if d is None else d for d in deadlines), default=0)
    for tick in range(last + 1):
        for index, deadline in enumerate(deadlines):
            if deadline is None:
                _read(out, index, sweep, tick, _SLOW, lengths == tick)
            elif deadline == tick:
                _read(out, index, sweep, tick, _DEADLINE, slice(None))
        sweep.step(tick)
    return Grid(**out)


def all_patterns(length: int, largest: int = MAX_DRAIN) -> Counts:
    """Every drain pattern of this length with entries up to ``largest``, in lexicographic order: ``(n, length)``."""
    return np.array(list(product(range(largest + 1), repeat=length)), np.int16)


def bounded_against_unbounded(
    capacities: Sequence[int], deadlines: Sequence[int], length: int, largest: int
) -> dict[str, Any]:
    """A recipe for evidence: how often a bounded queue differs from an unbounded one, over all patterns.

    ``first`` is the first pattern for which some bounded run sends fewer tokens, in lexicographic order.
    """
    drains = all_patterns(length, largest)
    bounded = run_grid(capacities, deadlines, drains)
    unbounded = run_grid([None], deadlines, drains)
    fewer = bounded.sent < unbounded.sent
    hit = fewer.any(axis=(0, 1))
    return {
        "cells": fewer.size,
        "sent_same": int((bounded.sent == unbounded.sent).sum()),
        "sent_fewer": int(fewer.sum()),
        "sent_more": int((bounded.sent > unbounded.sent).sum()),
        "dropped_fewer": int((bounded.dropped < unbounded.dropped).sum()),
        "dropped_more": int((bounded.dropped > unbounded.dropped).sum()),
        "first": drains[hit.argmax()].tolist() if hit.any() else None,
    }


class _Sweep:
    """The state of all runs without a deadline: arrays of shape ``(capacities, drains)``."""

    def __init__(self, high: Counts, low: Counts, takes: Counts, policy: str, tokens: int) -> None:
        self.high, self.low, self.takes = high, low, takes
        self.policy, self.tokens = policy, tokens
        shape = (len(high), len(takes))
        self.waiting, self.generated, self.sent, self.lost, self.paused, self.stalled, self.reason = (
            np.zeros(shape, np.int16) for _ in range(7)
        )
        self.neighbour = np.zeros(shape, np.int16)  # tokens that the neighbour has
        self.parked = np.zeros(shape, np.bool_)
        self.end = np.full(shape, -1, np.int16)  # -1 while the run goes on

    def step(self, tick: int) -> None:
        """The reader takes, then the model generates. A run that has ended no longer changes."""
        running = self.end < 0
        self._drain(tick, running)
        done = running & (self.generated == self.tokens) & (self.waiting == 0)
        self._finish(done, tick, _STOP)
        wants = running & (self.generated < self.tokens)
        if self.policy in ("unbounded", "coalesce"):
            self._make(wants)
        elif self.policy in ("park", "block"):
            self._gate(wants, self.low if self.policy == "park" else self.high - np.int16(1))
        else:
            full = wants & (self.waiting >= self.high)
            self._make(wants & ~full)
            if self.policy == "fail":
                self._finish(full, tick, _SLOW)
            else:
                self.generated += full
                self.lost += full
        if self.policy == "block":
            self._neighbour(running & self.parked & wants)

    def _drain(self, tick: int, running: Flags) -> None:
        if tick >= self.takes.shape[1]:
            return
        take = self.takes[:, tick]
        out = self.waiting * (take > 0) if self.policy == "coalesce" else np.minimum(self.waiting, take)
        out = out * running
        self.waiting -= out
        self.sent += out

    def _gate(self, wants: Flags, low: Counts) -> None:
        self.parked = np.where(self.parked, self.waiting > low, self.waiting >= self.high)
        self.paused += wants & self.parked
        self._make(wants & ~self.parked)

    def _make(self, where: Flags) -> None:
        self.generated += where
        self.waiting += where

    def _finish(self, where: Flags, tick: int, reason: int) -> None:
        self.end[where] = tick
        self.reason[where] = reason

    def _neighbour(self, waits: Flags) -> None:
        hungry = self.neighbour < self.tokens
        self.stalled += waits & hungry
        self.neighbour += ~waits & hungry


def _read(
    out: dict[str, Counts], index: int, sweep: _Sweep, tick: int, limit: int, runs: Flags | slice
) -> None:
    """Writes the figures of runs that a limit ends in ``tick``, if nothing has ended them before."""
    going = sweep.end < 0
    values = {
        "generated": sweep.generated,
        "sent": sweep.sent,
        "dropped": sweep.waiting + sweep.lost,
        "paused": sweep.paused,
        "stalled": sweep.stalled,
        "end": np.where(going, tick, sweep.end),
        "reason": np.where(going, limit, sweep.reason),
    }
    for name, value in values.items():
        out[name][:, index, runs] = value[:, runs]


def _marks(capacities: Sequence[int | None], low: Sequence[int | None] | None) -> tuple[Counts, Counts]:
    """High and low marks as columns; where there is no bound, marks that no queue can reach."""
    low = [None] * len(capacities) if low is None else low
    if len(low) != len(capacities):
        raise CapacityError(f"{len(capacities)} capacities need as many low marks, not {len(low)}")
    pairs = [Credits(capacity, mark) for capacity, mark in zip(capacities, low, strict=True)]
    high = [_NO_BOUND if pair.capacity is None else min(pair.capacity, _NO_BOUND) for pair in pairs]
    marks = [_NO_BOUND if pair.low is None else min(pair.low, _NO_BOUND - 1) for pair in pairs]
    return np.array(high, np.int16)[:, None], np.array(marks, np.int16)[:, None]


def _patterns(drains: Sequence[Sequence[int]] | npt.NDArray[np.int16]) -> tuple[Counts, Counts]:
    """The patterns as one array, filled up with zeros, and the length of each."""
    if isinstance(drains, np.ndarray):
        if drains.ndim != 2 or not 1 <= drains.shape[1] <= MAX_TICKS or drains.dtype.kind not in "iu":
            raise TraceError("patterns in an array must be whole numbers of shape (patterns, ticks)")
        if drains.size and not 0 <= drains.min() <= drains.max() <= MAX_DRAIN:
            raise TraceError(f"drain must be whole numbers from 0 to {MAX_DRAIN}")
        return drains.astype(np.int16), np.full(len(drains), drains.shape[1], np.int16)
    for drain in drains:
        check_drain(drain)
    lengths = np.array([len(drain) for drain in drains], np.int16)
    takes = np.zeros((len(drains), int(lengths.max(initial=0))), np.int16)
    for row, drain in enumerate(drains):
        takes[row, : len(drain)] = drain
    return takes, lengths
