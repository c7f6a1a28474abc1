"""Every way in which a request can end, as one table.

The server, the SLO, the breaker and the retry rule read this table and decide nothing on their own. To
add an ending is to add one row with all its columns; a test fails while one is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Reason(StrEnum):
    """Why a request ended. The value is the ``code`` on the wire and the label in a metric."""

    STOP = "stop"
    LENGTH = "length"
    CLIENT_CANCEL = "client_cancel"
    CLIENT_DISCONNECT = "client_disconnect"
    QUEUE_TIMEOUT = "queue_timeout"
    TTFT_TIMEOUT = "ttft_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    OVERALL_DEADLINE = "overall_deadline"
    SLOW_CONSUMER = "slow_consumer"
    DRAIN = "drain"
    BACKEND_ERROR = "backend_error"
    WORKER_LOST = "worker_lost"
    LEASE_EXPIRED = "lease_expired"
    OVERLOADED = "overloaded"
    DRAINING = "draining"
    INVALID = "invalid"
    TOO_LONG = "too_long"
    OVER_BUDGET = "over_budget"
    RATE_LIMITED = "rate_limited"


class Outcome(StrEnum):
    """Reasons in coarser groups: few enough for a metric label and for a legend."""

    OK = "ok"
    LENGTH = "length"
    CLIENT_CANCEL = "client_cancel"
    CLIENT_DISCONNECT = "client_disconnect"
    TIMEOUT = "timeout"
    SLOW_CONSUMER = "slow_consumer"
    DRAIN = "drain"
    ERROR = "error"
    ORPHANED = "orphaned"
    REJECTED = "rejected"


class AfterFirstByte(StrEnum):
    """What the client still gets when the response has begun and its status can no longer change."""

    FINISH_REASON = "finish_reason"  # a last chunk with finish_reason, then [DONE]
    ERROR = "error"  # one error event with the reason as its code, then [DONE]
    NOTHING = "nothing"  # the client is gone
    ABORT = "abort"  # the client is there and does not read: a polite end would wait for it too


class Slo(StrEnum):
    """How an SLO counts the request."""

    JUDGED = "judged"  # good or bad by its latencies
    BAD = "bad"
    EXCLUDED = "excluded"  # the caller's own doing, and known at once
    EXCLUDED_SHOWN = "excluded_shown"  # excluded, but its number stands beside the ratio
    EXCLUDED_UNLESS_MISSED = "excluded_unless_missed"  # bad if an SLO was missed before the client left


class Breaker(StrEnum):
    """What the ending says of the health of the endpoint."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"  # says nothing: a half-open probe gives its slot back


class Retry(StrEnum):
    """Whether another attempt makes sense, as long as no byte went downstream."""

    NOT_NEEDED = "not_needed"
    NO = "no"  # another attempt would end the same way, or nobody waits for it
    NEVER = "never"  # the time is used up, whatever else may be true
    IF_TIME_REMAINS = "if_time_remains"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class Ending:
    """One row of the table.

    ``status`` is the HTTP status if no byte was sent yet (499 stands in the log only, nobody reads it);
    None where this ending cannot come before the first byte. ``retry_after`` says whether a Retry-After
    header goes with it. ``after`` is None where the ending cannot come after the first byte.
    """

    reason: Reason
    outcome: Outcome
    status: int | None
    retry_after: bool
    after: AfterFirstByte | None
    slo: Slo
    breaker: Breaker
    retry: Retry

    @property
    def natural(self) -> bool:
        """The model came to its own end; decided when the last byte is handed over."""
        return self.after is AfterFirstByte.FINISH_REASON

    @property
    def refusal(self) -> bool:
        """Refused at the door: a record, but never a lifecycle."""
        return self.outcome is Outcome.REJECTED


# fmt: off
_ROWS = (
    # reason, outcome, status before the first byte, Retry-After, after the first byte, SLO, breaker, retry
    (Reason.STOP,   Outcome.OK,     200, False, AfterFirstByte.FINISH_REASON, Slo.JUDGED, Breaker.SUCCESS, Retry.NOT_NEEDED),
    (Reason.LENGTH, Outcome.LENGTH, 200, False, AfterFirstByte.FINISH_REASON, Slo.JUDGED, Breaker.SUCCESS, Retry.NOT_NEEDED),

    # A cancel comes through another door, so its stream still has a reader; a disconnect has none.
    (Reason.CLIENT_CANCEL,     Outcome.CLIENT_CANCEL,     499, False, AfterFirstByte.ERROR,   Slo.EXCLUDED_UNLESS_MISSED, Breaker.NEUTRAL, Retry.NO),
    (Reason.CLIENT_DISCONNECT, Outcome.CLIENT_DISCONNECT, 499, False, AfterFirstByte.NOTHING, Slo.EXCLUDED_UNLESS_MISSED, Breaker.NEUTRAL, Retry.NO),

    # A full queue says nothing of the health of the endpoint. A byte is out before a queue_timeout only
    # where the server sends its headers at admission (commit="early").
    (Reason.QUEUE_TIMEOUT,    Outcome.TIMEOUT, 503, True,  AfterFirstByte.ERROR, Slo.BAD, Breaker.NEUTRAL, Retry.IF_TIME_REMAINS),
    (Reason.TTFT_TIMEOUT,     Outcome.TIMEOUT, 504, False, AfterFirstByte.ERROR, Slo.BAD, Breaker.NEUTRAL, Retry.IF_TIME_REMAINS),
    # The one limit that blames the endpoint: it had the request and made nothing of it.
    (Reason.IDLE_TIMEOUT,     Outcome.TIMEOUT, 504, False, AfterFirstByte.ERROR, Slo.BAD, Breaker.FAILURE, Retry.IF_TIME_REMAINS),
    (Reason.OVERALL_DEADLINE, Outcome.TIMEOUT, 504, False, AfterFirstByte.ERROR, Slo.BAD, Breaker.NEUTRAL, Retry.NEVER),

    (Reason.SLOW_CONSUMER, Outcome.SLOW_CONSUMER, None, False, AfterFirstByte.ABORT, Slo.EXCLUDED_SHOWN, Breaker.NEUTRAL, Retry.NO),
    (Reason.DRAIN,         Outcome.DRAIN,         503,  True,  AfterFirstByte.ERROR, Slo.BAD,            Breaker.NEUTRAL, Retry.YES),

    # The same request would break the next backend too; a lost worker is no fault of the request.
    (Reason.BACKEND_ERROR, Outcome.ERROR, 500, False, AfterFirstByte.ERROR, Slo.BAD, Breaker.FAILURE, Retry.NO),
    (Reason.WORKER_LOST,   Outcome.ERROR, 502, False, AfterFirstByte.ERROR, Slo.BAD, Breaker.FAILURE, Retry.YES),

    # Whoever asked is gone: there is no response to put a status or an event into.
    (Reason.LEASE_EXPIRED, Outcome.ORPHANED, None, False, None, Slo.EXCLUDED_SHOWN, Breaker.NEUTRAL, Retry.NO),

    # Refusals. To say "no" rightly (400) is a success of the endpoint.
    (Reason.OVERLOADED,   Outcome.REJECTED, 503, True,  None, Slo.BAD,      Breaker.NEUTRAL, Retry.YES),
    (Reason.DRAINING,     Outcome.REJECTED, 503, True,  None, Slo.BAD,      Breaker.NEUTRAL, Retry.YES),
    (Reason.INVALID,      Outcome.REJECTED, 400, False, None, Slo.EXCLUDED, Breaker.SUCCESS, Retry.NO),
    (Reason.TOO_LONG,     Outcome.REJECTED, 400, False, None, Slo.EXCLUDED, Breaker.SUCCESS, Retry.NO),
    (Reason.OVER_BUDGET,  Outcome.REJECTED, 429, True,  None, Slo.EXCLUDED, Breaker.NEUTRAL, Retry.NO),
    (Reason.RATE_LIMITED, Outcome.REJECTED, 429, True,  None, Slo.EXCLUDED, Breaker.NEUTRAL, Retry.NO),
)
# fmt: on

ENDINGS: Mapping[Reason, Ending] = MappingProxyType({row[0]: Ending(*row) for row in _ROWS})
