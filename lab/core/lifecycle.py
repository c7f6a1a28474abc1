"""The life of one request: a table of moves, and one step that ends it.

``QUEUED -> PREFILL -> DECODE <-> PARKED``, then ``FLUSHING``, then ``ENDED``. What is not in the table
raises. The end is special: a deadline, a cancel, a lost worker and the last token may all arrive in the
same instant, so they all go through ``try_finish``, and the first caller wins. It is one synchronous step:
between the look at the state and the change of it nothing can run, so there is no race to lose.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lab.core.endings import ENDINGS, Reason
from lab.core.errors import TransitionError


class State(StrEnum):
    """Where a request stands."""

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    PARKED = "parked"
    FLUSHING = "flushing"
    ENDED = "ended"


TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.QUEUED: frozenset({State.PREFILL, State.ENDED}),
        # The first token can be the last: then the model is done without one step of decode.
        State.PREFILL: frozenset({State.DECODE, State.FLUSHING, State.ENDED}),
        State.DECODE: frozenset({State.PARKED, State.FLUSHING, State.ENDED}),
        # No edge to FLUSHING: a parked request generates nothing, so it cannot come to its last token.
        State.PARKED: frozenset({State.DECODE, State.ENDED}),
        # The model is done, the client is not: its queue drains, and a limit can still win.
        State.FLUSHING: frozenset({State.ENDED}),
        State.ENDED: frozenset(),
    }
)


class Lifecycle:
    """One request from its acceptance to its one ending.

    ``on_finish(reason)`` is called once, by the winner, when the state is already ENDED: it posts the
    release. If it raises, the exception reaches the winner and the request has ended all the same.
    Signals that come after the ending change nothing and are counted in ``late``, by reason.
    """

    __slots__ = ("_natural", "_on_finish", "late", "reason", "state")

    def __init__(self, on_finish: Callable[[Reason], None] | None = None) -> None:
        self.state = State.QUEUED
        self.reason: Reason | None = None
        self.late: Counter[Reason] = Counter()
        self._natural: Reason | None = None
        self._on_finish = on_finish

    def advance(self, to: State) -> None:
        """Moves along the table.

        FLUSHING is reached by ``model_done`` and ENDED by ``try_finish`` alone, because both need a reason.

        :raises TransitionError: when the table holds no such move, or ``to`` needs a reason.
        """
        if to is State.FLUSHING or to is State.ENDED:
            raise TransitionError(f"{to} needs a reason: use model_done or try_finish")
        self._move(to)

    def model_done(self, natural: Reason) -> None:
        """The model made its last token: FLUSHING until the last byte is handed over.

        After the ending this is one more late signal.

        :raises TransitionError: when ``natural`` is not a natural ending, or the model cannot be done here.
        """
        if not ENDINGS[natural].natural:
            raise TransitionError(f"a model ends with stop or length, not with {natural}")
        if self.state is State.ENDED:
            self.late[natural] += 1
            return
        self._move(State.FLUSHING)
        self._natural = natural

    def flushed(self) -> bool:
        """The last byte was handed over: the natural ending is tried now, and not before.

        :returns: True if the request ends by this call; False if another ending had won.
        :raises TransitionError: when the request has not ended and its model is not done.
        """
        if self._natural is None:
            if self.state is State.ENDED:
                return False
            raise TransitionError(f"nothing to flush in {self.state}: the model is not done")
        return self.try_finish(self._natural)

    def try_finish(self, reason: Reason) -> bool:
        """Ends the request if nothing has ended it yet: one step, the first caller wins.

        :returns: True for the winner, who alone does what an ending needs; False for all others.
        :raises TransitionError: for a refusal (it has no lifecycle), and for stop or length before the
            model said so: a request is not a success until its last byte is handed over.
        """
        ending = ENDINGS[reason]
        if ending.refusal:
            raise TransitionError(f"{reason} is a refusal and has no lifecycle to end")
        if self.state is State.ENDED:
            self.late[reason] += 1
            return False
        if ending.natural and reason is not self._natural:
            raise TransitionError(f"{reason} in {self.state}: the model did not say so")
        self.state = State.ENDED
        self.reason = reason
        # Only now: a callback that raises, or calls back in, finds a request that has ended.
        if self._on_finish is not None:
            self._on_finish(reason)
        return True

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values, for a test or a debug page."""
        return {
            "state": self.state.value,
            "reason": None if self.reason is None else self.reason.value,
            "natural": None if self._natural is None else self._natural.value,
            "late": {reason.value: count for reason, count in sorted(self.late.items())},
        }

    def _move(self, to: State) -> None:
        if to not in TRANSITIONS[self.state]:
            raise TransitionError(f"no move from {self.state} to {to}")
        self.state = to

    def __repr__(self) -> str:
        return f"Lifecycle({self.state.value}, reason={self.reason and self.reason.value})"
