"""The metrics of one serving process: counted from the records of requests alone, so they cannot disagree with them.

Each ``Metrics`` has a registry of its own; several servers in one process do not share a counter. What is unknown
(None in a record) is not observed: it is neither zero nor anything else. What cannot be (a negative number, NaN) is
not observed either, since one such value spoils a sum for good; it is counted in ``llm_clock_anomalies``. An id of a
request or a user is never a label, and of the applications only those on the allow-list have a name of their own, so
no caller can make series without end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeGuard

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from lab.core.record import RequestRecord

ANONYMOUS = "anonymous"  # a request that names no application
OTHER = "other"  # one that names an application which is not on the list
UNKNOWN = "unknown"
TTFT_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.45, 0.5, 0.75, 1, 2, 2.5, 5, 10,
)  # fmt: skip
TPOT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.08, 0.1, 0.2, 0.5, 1)
DURATION_BUCKETS = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 120,
)  # fmt: skip

_PHASES = ("queue", "prefill", "decode", "parked", "transfer")
_TOKENS = ("proposed", "accepted", "generated", "sent", "delivered", "trimmed", "dropped", "discarded")
_USED = {
    "prompt": "prompt_tokens",
    "cached_prompt": "cached_tokens",
    "completion": "completion_tokens",
    "reasoning": "reasoning_tokens",
}


class Metrics:
    """See the module. ``apps``: the application ids that may be a label."""

    def __init__(self, apps: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        self._apps = frozenset({ANONYMOUS, *apps})
        self._requests = self._counter(
            "llm_requests", "Requests by outcome, refusals included.", ("model", "route", "app_id", "outcome")
        )
        self._duration = self._histogram(
            "llm_request_duration",
            "Accepted requests, from arrival to the close of the response.",
            DURATION_BUCKETS,
        )
        self._ttft = self._histogram(
            "llm_time_to_first_token", "From arrival to the first generated token.", TTFT_BUCKETS
        )
        self._tpot = self._histogram(
            "llm_time_per_output_token", "Mean per token after the first, without parked time.", TPOT_BUCKETS
        )
        self._phases = {
            name: self._histogram(f"llm_{name}", f"Time of a request in its {name} phase.", DURATION_BUCKETS)
            for name in _PHASES
        }
        self._tokens = {
            name: self._counter(f"llm_{name}_tokens", f"Tokens {name}.", ("model",)) for name in _TOKENS
        }
        self._used = {
            name: self._counter(f"llm_{name}_tokens", f"Tokens of usage: {name}.", ("model", "app_id"))
            for name in _USED
        }
        self._usage_missing = self._counter(
            "llm_usage_missing", "Accepted requests without usage.", ("reason",)
        )
        self._late = self._counter("llm_late_signals", "Signals that came after the ending.", ("reason",))
        self._anomalies = self._counter(
            "llm_clock_anomalies",
            "Intervals that came out negative, and numbers that are none.",
            ("component",),
        )
        self._inflight = self._gauge("llm_inflight_requests", "Requests in prefill or decode.")
        self._waiting = self._gauge("llm_queue_depth", "Requests accepted and not started.")
        self._parked = self._gauge("llm_parked_requests", "Requests whose reader is behind.")
        self._slots_free = self._gauge("llm_slots_free", "Free slots of the engine.")

    def observe(self, record: RequestRecord) -> None:
        """Counts one request. Called once for each record."""
        model = record.model or UNKNOWN
        app = record.app_id if record.app_id in self._apps else OTHER
        route = record.route or UNKNOWN
        self._requests.labels(model, route, app, record.outcome.value).inc()
        if record.generated_tokens is not None:  # a refusal has no lifecycle, so no latency and no tokens
            self._observe_latency(record, model)
            self._observe_tokens(record, model, app)
        for reason, count in record.late.items():
            self._add(self._late, count, reason)
        self._add(self._anomalies, record.clock_anomalies, "server")

    def _observe_latency(self, record: RequestRecord, model: str) -> None:
        for histogram, milliseconds in (
            (self._duration, record.e2e_ms),
            (self._ttft, record.ttft_ms),
            (self._tpot, record.tpot_ms),
            *((self._phases[name], getattr(record, f"{name}_ms")) for name in _PHASES),
        ):
            if self._possible(milliseconds):
                histogram.labels(model).observe(milliseconds / 1000)

    def _observe_tokens(self, record: RequestRecord, model: str, app: str) -> None:
        for name in _TOKENS:
            self._add(self._tokens[name], getattr(record, f"{name}_tokens"), model)
        for name, field in _USED.items():
            self._add(self._used[name], getattr(record, field), model, app)
        if record.usage_source == "missing":
            self._usage_missing.labels(record.reason.value).inc()

    def set_states(self, running: int, waiting: int, parked: int, slots_free: int) -> None:
        """The gauges, from the owner of the requests; set when someone looks."""
        self._inflight.set(running)
        self._waiting.set(waiting)
        self._parked.set(parked)
        self._slots_free.set(slots_free)

    def exposition(self, accept: str | None) -> tuple[bytes, str]:
        """All series and their content type, in the newest format that the reader accepts."""
        try:
            encode, content_type = choose_encoder(accept or "")
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = choose_encoder("")
        return encode(self.registry), content_type

    def _possible(self, value: float | None) -> TypeGuard[float]:
        """Whether there is a value to count; one that cannot be is counted as an anomaly."""
        if value is None:
            return False
        if math.isfinite(value) and value >= 0:
            return True
        self._anomalies.labels("record").inc()
        return False

    def _add(self, counter: Counter, amount: int | None, *labels: str) -> None:
        if self._possible(amount):
            counter.labels(*labels).inc(amount)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"{name}_seconds", text, ("model",), buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)
