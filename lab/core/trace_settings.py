"""What defines a trace: capacity and marks, the reader's drain pattern, the deadline, the policy.

Everything is checked here, once, so that the simulators may trust it. See ``lab.core.trace`` for what
the settings mean when they run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.core.endings import ENDINGS, Reason
from lab.core.errors import CoreError, TraceError
from lab.core.send_queue import Credits

POLICIES = ("park", "coalesce", "fail", "unbounded", "drop", "block")
WORKED_DRAIN = (1, 0, 0, 0, 1, 0, 1, 0, 0)
MAX_DRAIN = 3  # events a reader may take in one tick
MAX_TICKS = 1000


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """What defines a run; the defaults are the worked example of chapter 01.

    capacity  events that may wait; None is no bound
    drain     events that the reader takes, per tick, 0 to 3; after the pattern 0
    deadline  the tick that ends the request; None is no deadline
    low       the mark at which a parked request is armed again; None is ``capacity - 1``
    tokens    one character is one token
    signals   ``(tick, reason)``: what else arrives, such as a cancel
    """

    capacity: int | None = 3
    drain: tuple[int, ...] = WORKED_DRAIN
    deadline: int | None = 8
    low: int | None = None
    policy: str = "park"
    tokens: str = "ABCDEFG"
    signals: tuple[tuple[int, Reason], ...] = ()

    def __post_init__(self) -> None:
        """:raises CapacityError: for marks that mean nothing. :raises TraceError: for all else."""
        Credits(self.capacity, self.low)
        if self.policy not in POLICIES:
            raise TraceError(f"policy must be one of {', '.join(POLICIES)}, not {self.policy!r}")
        check_drain(self.drain)
        check_deadline(self.deadline)
        if not self.tokens or len(self.tokens) > MAX_TICKS:
            raise TraceError(f"a trace has 1 to {MAX_TICKS} tokens")
        for tick, reason in self.signals:
            if not _is_whole(tick) or tick < 0:
                raise TraceError(f"a signal arrives in a tick from 0 on, not in {tick!r}")
            if reason not in ENDINGS or ENDINGS[reason].natural or ENDINGS[reason].refusal:
                raise TraceError(f"{reason} is not a signal that can end a running request")

    @property
    def last_tick(self) -> int:
        """The tick in which the run ends at the latest."""
        return len(self.drain) if self.deadline is None else self.deadline

    @property
    def limit(self) -> Reason:
        """What ends the run in its last tick."""
        return Reason.SLOW_CONSUMER if self.deadline is None else Reason.OVERALL_DEADLINE


def check_drain(drain: Sequence[int]) -> None:
    """:raises TraceError: unless it is 1 to MAX_TICKS whole numbers from 0 to MAX_DRAIN."""
    if not 1 <= len(drain) <= MAX_TICKS or any(not _is_whole(d) or not 0 <= d <= MAX_DRAIN for d in drain):
        raise TraceError(f"drain must be 1 to {MAX_TICKS} whole numbers from 0 to {MAX_DRAIN}")


def check_deadline(deadline: int | None) -> None:
    """:raises TraceError: unless it is None or a tick from 0 to MAX_TICKS."""
    if deadline is not None and (not _is_whole(deadline) or not 0 <= deadline <= MAX_TICKS):
        raise TraceError(f"deadline must be a tick from 0 to {MAX_TICKS} or None, not {deadline!r}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def settings_from_json(case: Mapping[str, Any]) -> TraceSettings:
    """Settings out of plain JSON values: lists become tuples, names become reasons.

    :raises TraceError: for a name that is no setting, or a reason that is none
    """
    try:
        values = dict(case)
        if "drain" in values:
            values["drain"] = tuple(values["drain"])
        if "signals" in values:
            values["signals"] = tuple((tick, Reason(reason)) for tick, reason in values["signals"])
        return TraceSettings(**values)
    except CoreError:
        raise
    except (TypeError, ValueError) as error:
        raise TraceError(f"these are not the settings of a trace: {error}") from error
