"""The row that is written once for every request, when its response closes.

It joins what four owners know: what was asked (``RequestInfo``), how it ended (``Lifecycle``), how many
tokens (``TokenCounts``), when (``Stamps``) and how the socket fared (``Delivery``). Metrics, logs, traces and
SLOs are made from this row alone, so they cannot disagree. It holds no text of prompt or answer.

Unknown is None, never 0. All intervals are differences on one monotonic clock; one that comes out negative
is stored as None and counted in ``clock_anomalies``. Every accepted request satisfies
``e2e = admit + queue + prefill + decode + parked + transfer``, None counting as no time: a phase that an
ending cut short lasts until the ending.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from lab.core.endings import ENDINGS, Outcome, Reason
from lab.core.errors import TransitionError
from lab.core.lifecycle import Lifecycle, State
from lab.core.stamps import Stamps
from lab.core.tokens import TokenCounts, Usage, tpot, ttft

SCHEMA_VERSION = 1
_ROUNDING = 1e-6  # seconds: a sum of floats may come out this much below zero without any clock at fault


class SocketEnd(StrEnum):
    """How the response left the socket."""

    COMPLETE = "complete"  # the last byte was handed over
    CLIENT_CLOSED = "client_closed"
    ABORTED = "aborted"  # by the server, because a polite end would have waited for the reader


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What was asked. None where a refused request was not understood that far."""

    request_id: str
    app_id: str = "anonymous"
    client_request_id: str | None = None  # a label of the caller's, never a key
    route: str | None = None
    model: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """``status``: the HTTP status that was sent, None if the response never started."""

    status: int | None
    socket_end: SocketEnd | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """The row. Token fields as in ``lab.core.tokens``, intervals in milliseconds."""

    schema_version: int = SCHEMA_VERSION
    ts: str  # RFC 3339, UTC: when the row was made; for people, never for arithmetic
    request_id: str
    client_request_id: str | None
    app_id: str
    route: str | None
    model: str | None
    stream: bool | None
    max_tokens: int | None

    reason: Reason
    outcome: Outcome
    finish_reason: str | None  # only what the wire may say: stop or length
    http_status: int | None  # 499 stands for a client that left before there was a status
    socket_end: SocketEnd | None
    late: Mapping[str, int]  # signals that came after the ending, by reason

    prompt_tokens: int | None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    truncated: bool | None = None
    usage_source: str = "missing"  # or "engine"

    proposed_tokens: int | None = None
    accepted_tokens: int | None = None
    generated_tokens: int | None = None
    sent_tokens: int | None = None
    delivered_tokens: int | None = None
    trimmed_tokens: int | None = None
    dropped_tokens: int | None = None
    discarded_tokens: int | None = None

    admit_ms: float | None = None
    queue_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    parked_ms: float | None = None
    transfer_ms: float | None = None
    e2e_ms: float | None = None
    ttft_ms: float | None = None  # from arrival to the first generated token
    tpot_ms: float | None = None  # as the model made it, without parked time: what an SLO judges
    tpot_sent_ms: float | None = None  # as the client could see it at best: first to last send
    clock_anomalies: int = 0

    def to_json_dict(self) -> dict[str, Any]:
        """Plain values under the names of the fields, ready for ``json.dumps``."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        row["late"] = dict(self.late)
        return {name: value.value if isinstance(value, StrEnum) else value for name, value in row.items()}


def request_record(
    info: RequestInfo,
    lifecycle: Lifecycle,
    counts: TokenCounts,
    stamps: Stamps,
    delivery: Delivery,
    *,
    ts: str,
    cached_tokens: int | None = None,
) -> RequestRecord:
    """The row of an accepted request whose response is closed.

    :raises TransitionError: when it has not ended, or lacks the stamp of its end or its close.
    :raises CountError: when the token counts contradict each other; see ``TokenCounts.check_final``.
    """
    if lifecycle.state is not State.ENDED or lifecycle.reason is None:
        raise TransitionError(f"a record is made of a request that has ended, not in {lifecycle.state}")
    counts.check_final()
    usage = final_usage(counts, lifecycle.reason, info.prompt_tokens, cached_tokens)
    return RequestRecord(
        ts=ts,
        **_asked(info),
        **_ended(lifecycle.reason, delivery),
        late={reason.value: count for reason, count in sorted(lifecycle.late.items())},
        **_used(usage),
        **{f"{name}_tokens": getattr(counts, name) for name in _COUNTED},
        **_timed(stamps, counts),
    )


def refusal_record(
    info: RequestInfo, reason: Reason, delivery: Delivery, *, arrived_at: float, closed_at: float, ts: str
) -> RequestRecord:
    """The row of a request that was refused at the door. It had no lifecycle and counted no token.

    :raises TransitionError: when ``reason`` is not a refusal.
    """
    if not ENDINGS[reason].refusal:
        raise TransitionError(f"{reason} is no refusal: a request that was accepted has a lifecycle")
    e2e, anomalies = _milliseconds({"e2e_ms": closed_at - arrived_at})
    return RequestRecord(
        ts=ts,
        **_asked(info),
        **_ended(reason, delivery),
        late={},
        **e2e,
        clock_anomalies=anomalies,
    )


def final_usage(
    counts: TokenCounts, reason: Reason, prompt_tokens: int | None, cached_tokens: int | None = None
) -> Usage | None:
    """The usage of a request that came to its natural end; None for every other ending, never zeros."""
    if prompt_tokens is None or not ENDINGS[reason].natural:
        return None
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=counts.generated - counts.trimmed,
        cached_tokens=cached_tokens,
        truncated=reason is Reason.LENGTH,
    )


_COUNTED = ("proposed", "accepted", "generated", "sent", "delivered", "trimmed", "dropped", "discarded")


def _asked(info: RequestInfo) -> dict[str, Any]:
    return {field.name: getattr(info, field.name) for field in fields(info)}


def _ended(reason: Reason, delivery: Delivery) -> dict[str, Any]:
    ending = ENDINGS[reason]
    # A status that was never sent is unknown, but for the one that exists in logs alone.
    unsent = ending.status if ending.status == 499 else None
    return {
        "reason": reason,
        "outcome": ending.outcome,
        "finish_reason": reason.value if ending.natural else None,
        "http_status": unsent if delivery.status is None else delivery.status,
        "socket_end": delivery.socket_end,
    }


def _used(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    names = ("completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens", "truncated")
    return {"usage_source": "engine", **{name: getattr(usage, name) for name in names}}


def _timed(stamps: Stamps, counts: TokenCounts) -> dict[str, Any]:
    ended, closed = stamps.ended_at, stamps.closed_at
    if ended is None or closed is None:
        raise TransitionError("a record needs the instants of the ending and of the close")
    started, first, last = stamps.started_at, stamps.first_token_at, stamps.last_token_at
    parked_after_last = stamps.parked - stamps.parked_before_last
    # What runs after the last phase that was finished: the ending if it was cut short, else the last token.
    generated_until = ended if last is None else last
    seconds = {
        "admit_ms": stamps.accepted_at - stamps.arrived_at,
        "queue_ms": (ended if started is None else started) - stamps.accepted_at,
        "prefill_ms": None if started is None else (ended if first is None else first) - started,
        "decode_ms": None if first is None or last is None else last - first - stamps.parked_before_last,
        "parked_ms": stamps.parked,
        "transfer_ms": closed - generated_until - parked_after_last,
        "e2e_ms": closed - stamps.arrived_at,
        "ttft_ms": ttft(stamps.arrived_at, first),
        "tpot_ms": tpot(first, last, counts.generated, stamps.parked_before_last),
        "tpot_sent_ms": tpot(stamps.first_sent_at, stamps.last_sent_at, counts.sent),
    }
    intervals, anomalies = _milliseconds(seconds)
    return {**intervals, "clock_anomalies": anomalies}


def _milliseconds(seconds: Mapping[str, float | None]) -> tuple[dict[str, Any], int]:
    """The intervals in milliseconds with None for the negative ones, and how many those were."""
    negative = {name for name, value in seconds.items() if value is not None and value < -_ROUNDING}
    intervals = {
        name: None if value is None or name in negative else max(value, 0.0) * 1000
        for name, value in seconds.items()
    }
    return intervals, len(negative)
