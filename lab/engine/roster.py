"""Who is where: every live sequence on one list, and every slot with one sequence or free.

    waiting --admit--> prefilling --run--> decoding <--resume/park--> parked          release, from any of them

A sequence holds exactly one slot from `admit` to `release`, parked or not; all other slots are in `free`.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from operator import attrgetter
from typing import Any

from lab.engine.sequence import Sequence, Stage

_by_slot = attrgetter("slot")


class Roster:
    """The sequences of one engine loop and its `slots` dense slots."""

    def __init__(self, slots: int) -> None:
        self.live: dict[str, Sequence] = {}
        self.waiting: dict[str, Sequence] = {}  # in the order of their submits
        self.prefilling: deque[Sequence] = deque()
        self.decoding: list[Sequence] = []  # in the order of their slots: neighbours are read in place
        self.parked: dict[str, Sequence] = {}
        self.free = list(range(slots))  # a heap: the lowest slot first, to keep the rows together

    @property
    def idle(self) -> bool:
        """True when nothing can be computed until a command arrives."""
        return not (self.decoding or self.prefilling or (self.waiting and self.free))

    @property
    def running(self) -> int:
        """Sequences that hold a slot and are not parked."""
        return len(self.live) - len(self.waiting) - len(self.parked)

    def add(self, sequence: Sequence) -> None:
        """A new sequence takes its place at the end of the waiting line."""
        self.live[sequence.attempt_id] = self.waiting[sequence.attempt_id] = sequence

    def admit(self) -> Sequence | None:
        """Give the lowest free slot to the first that waits; None when there is no slot or nobody waits."""
        if not (self.waiting and self.free):
            return None
        sequence = self.waiting.pop(next(iter(self.waiting)))
        sequence.slot = heapq.heappop(self.free)
        sequence.stage = Stage.PREFILL
        self.prefilling.append(sequence)
        return sequence

    def run(self, sequence: Sequence) -> None:
        """Into the decode batch: its prompt is in the cache."""
        sequence.stage = Stage.DECODE
        insort(self.decoding, sequence, key=_by_slot)

    def park(self, sequence: Sequence) -> None:
        """Out of the decode batch, slot and KV kept."""
        sequence.stage = Stage.PARKED
        self.decoding.remove(sequence)
        self.parked[sequence.attempt_id] = sequence

    def resume(self, sequence: Sequence) -> None:
        """Back into the decode batch."""
        del self.parked[sequence.attempt_id]
        self.run(sequence)

    def release(self, sequence: Sequence) -> None:
        """The one way out: off every list, and its slot is free."""
        del self.live[sequence.attempt_id]
        if sequence.stage is Stage.WAITING:
            del self.waiting[sequence.attempt_id]
        elif sequence.stage is Stage.PARKED:
            del self.parked[sequence.attempt_id]
        elif sequence.stage is Stage.DECODE:
            self.decoding.remove(sequence)
        elif sequence in self.prefilling:  # else its prompt is complete and its first token is on the way
            self.prefilling.remove(sequence)
        if sequence.slot >= 0:
            heapq.heappush(self.free, sequence.slot)
        sequence.stage = Stage.ENDED

    def snapshot(self) -> dict[str, Any]:
        """Attempt ids by stage, slots and outstanding credits by attempt, free slots."""
        return {
            "waiting": list(self.waiting),
            "prefilling": [sequence.attempt_id for sequence in self.prefilling],
            "decoding": [sequence.attempt_id for sequence in self.decoding],
            "parked": list(self.parked),
            "slots": {name: sequence.slot for name, sequence in self.live.items() if sequence.slot >= 0},
            "outstanding": {name: sequence.credits.outstanding for name, sequence in self.live.items()},
            "free": sorted(self.free),
        }
