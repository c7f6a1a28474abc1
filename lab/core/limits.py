"""The limits on the time of one request: pure arithmetic on instants that are handed in.

Four limits watch the server and the model, one watches the reader:

====================  =========================================  ==========================================
limit                 runs                                       counts from
====================  =========================================  ==========================================
``queue_timeout``     while queued                               acceptance
``ttft_timeout``      until the first token                      acceptance, so the queue is included
``idle_timeout``      in PREFILL and DECODE, not while parked    the last progress: start, token, resume
``overall_deadline``  always                                     acceptance; or the caller's own deadline
``stall_timeout``     while an event is undelivered              the last credit that came back
====================  =========================================  ==========================================

A timer owned by nobody who can be blocked asks ``next_due`` and then ``due``; so a limit fires while a
write hangs. A limit is due at its instant, not after it.

**Tie rule.** If several are due, the one with the earlier instant wins, however late anyone looks. At
the same instant the order is ``TIE_ORDER``.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

from lab.core.endings import Reason
from lab.core.errors import CapacityError, SettingsError

TIE_ORDER: tuple[Reason, ...] = (
    Reason.OVERALL_DEADLINE,  # no time is left, so no other reason may invite a retry
    Reason.QUEUE_TIMEOUT,  # says where the time went; "no first token" is only its consequence
    Reason.TTFT_TIMEOUT,  # neutral for the breaker: blame the endpoint only if nothing milder explains it
    Reason.IDLE_TIMEOUT,  # an error event may still be read
    Reason.SLOW_CONSUMER,  # aborts the socket, which cannot be taken back: last
)
"""Who wins when several limits fall on the same instant."""

_NEVER = math.inf


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """The limits in seconds. None turns one off; zero is an error, because it would end every request.

    ``flush_timeout`` is how long the writer may take over the terminal event after the ending, before the
    socket is aborted. It cannot be turned off: every write is bounded.
    """

    queue_timeout: float | None = 10.0
    ttft_timeout: float | None = 30.0
    idle_timeout: float | None = 20.0
    overall_deadline: float | None = 120.0
    stall_timeout: float | None = 20.0
    flush_timeout: float = 2.0

    def __post_init__(self) -> None:
        """:raises SettingsError: one error that names every bad field."""
        bad = [
            f"{field.name}={value!r}"
            for field in fields(self)
            if not _is_limit(value := getattr(self, field.name), optional=field.name != "flush_timeout")
        ]
        if bad:
            raise SettingsError(
                f"a limit is a finite number of seconds above 0 (None turns it off, except flush_timeout): {', '.join(bad)}"
            )


class Limits:
    """The running limits of one request. Tell it what happens; ask it what is due.

    It holds one instant per limit, infinity when that limit does not run: telling it of a token is a
    comparison and two additions.
    """

    __slots__ = (
        "_idle",
        "_idle_at",
        "_overall_at",
        "_parked",
        "_queue_at",
        "_stall",
        "_stall_at",
        "_ttft_at",
        "undelivered",
    )

    def __init__(self, settings: LimitSettings, accepted_at: float, deadline_at: float | None = None) -> None:
        """Starts in QUEUED.

        ``deadline_at`` is the caller's own absolute deadline on the same clock; the earlier one counts.

        :raises SettingsError: when an instant is not finite.
        """
        for name, instant in (("accepted_at", accepted_at), ("deadline_at", deadline_at)):
            if instant is not None and not math.isfinite(instant):
                raise SettingsError(f"{name} must be a finite instant, not {instant}")
        self._idle = _or_never(settings.idle_timeout)
        self._stall = _or_never(settings.stall_timeout)
        self._queue_at = accepted_at + _or_never(settings.queue_timeout)
        self._ttft_at = accepted_at + _or_never(settings.ttft_timeout)
        self._overall_at = min(accepted_at + _or_never(settings.overall_deadline), _or_never(deadline_at))
        self._idle_at = _NEVER
        self._stall_at = _NEVER
        self._parked = False
        self.undelivered = 0

    def on_started(self, now: float) -> None:
        """The engine took the request out of its queue: PREFILL."""
        self._queue_at = _NEVER
        self._idle_at = now + self._idle

    def on_token(self, now: float) -> None:
        """One event with one or more tokens was published and waits for its reader.

        Without streaming the event is collected at once, so ``on_credit`` follows at once.
        """
        self._ttft_at = _NEVER
        if not self._parked:
            self._idle_at = now + self._idle
        if self.undelivered == 0:
            self._stall_at = now + self._stall
        self.undelivered += 1

    def on_parked(self, now: float) -> None:
        """Out of the batch: it is the reader who is idle now, not the model."""
        self._parked = True
        self._idle_at = _NEVER

    def on_resumed(self, now: float) -> None:
        """Back in the batch; the model gets its whole ``idle_timeout`` again."""
        self._parked = False
        self._idle_at = now + self._idle

    def on_credit(self, now: float, n: int = 1) -> None:
        """``n`` events were handed over and their credits went back.

        :raises CapacityError: when fewer than ``n`` events were undelivered.
        """
        if not 1 <= n <= self.undelivered:
            raise CapacityError(f"{n} events cannot have been delivered: {self.undelivered} were waiting")
        self.undelivered -= n
        self._stall_at = now + self._stall if self.undelivered else _NEVER

    def on_model_done(self, now: float) -> None:
        """FLUSHING: nothing more is expected of the model, only of the reader and of the clock."""
        self._ttft_at = _NEVER
        self._idle_at = _NEVER

    def next_due(self) -> float | None:
        """The earliest instant at which something can be due; None when no limit runs."""
        at = min(self._instants())
        return None if at == _NEVER else at

    def due(self, now: float) -> Reason | None:
        """The limit that has ended the request by ``now``, by the tie rule; None while all hold."""
        at = self.next_due()
        if at is None or at > now:
            return None
        return next(
            reason for reason, instant in zip(TIE_ORDER, self._instants(), strict=True) if instant == at
        )

    def snapshot(self) -> dict[str, Any]:
        """The instant of every limit that runs, and the undelivered events."""
        running = {
            reason.value: instant
            for reason, instant in zip(TIE_ORDER, self._instants(), strict=True)
            if instant != _NEVER
        }
        return {"due": running, "undelivered": self.undelivered}

    def _instants(self) -> tuple[float, ...]:
        """In the order of ``TIE_ORDER``."""
        return (self._overall_at, self._queue_at, self._ttft_at, self._idle_at, self._stall_at)

    def __repr__(self) -> str:
        return f"Limits({self.snapshot()})"


def _or_never(value: float | None) -> float:
    return _NEVER if value is None else value


def _is_limit(value: object, *, optional: bool) -> bool:
    if value is None:
        return optional
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value > 0
