import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.clock import VirtualClock
from lab.core.endings import ENDINGS, Reason
from lab.core.errors import CountError, TransitionError
from lab.core.lifecycle import Lifecycle, State
from lab.core.record import (
    SCHEMA_VERSION,
    Delivery,
    RequestInfo,
    RequestRecord,
    SocketEnd,
    refusal_record,
    request_record,
)
from lab.core.stamps import Stamps
from lab.core.tokens import TokenCounts

TS = "2026-01-02T03:04:05.678Z"
INFO = RequestInfo("r1", "shop", "mine-7", "/v1/completions", "lab-1m", True, 16, 3)
DONE = Delivery(200, SocketEnd.COMPLETE)
PARTS = ("admit_ms", "queue_ms", "prefill_ms", "decode_ms", "parked_ms", "transfer_ms")


def ended(reason: Reason) -> Lifecycle:
    life = Lifecycle()
    if ENDINGS[reason].natural:
        life.advance(State.PREFILL)
        life.model_done(reason)
    life.try_finish(reason)
    return life


def whole_run() -> Stamps:
    """Arrival at 100; a park of 2 s between the tokens; the model is done at 110, the reader at 113."""
    stamps = Stamps(arrived_at=100.0, accepted_at=100.5)
    stamps.on_started(102.0)
    stamps.on_token(103.0)
    stamps.on_sent(103.5)
    stamps.on_token(104.0)
    stamps.on_parked(105.0)
    stamps.on_resumed(107.0)
    stamps.on_token(110.0)
    stamps.on_sent(110.5)
    stamps.on_sent(112.5)
    stamps.on_ended(113.0)
    stamps.on_closed(113.0)
    return stamps


def record(reason=Reason.STOP, stamps=None, counts=None, delivery=DONE, info=INFO, **more) -> RequestRecord:
    return request_record(
        info,
        ended(reason),
        counts or TokenCounts(generated=3, sent=3),
        stamps or whole_run(),
        delivery,
        ts=TS,
        **more,
    )


def test_the_row_of_a_whole_run():
    life = ended(Reason.STOP)
    life.try_finish(Reason.CLIENT_DISCONNECT)
    counts = TokenCounts(generated=4, sent=3, trimmed=1, delivered=2)
    row = request_record(INFO, life, counts, whole_run(), DONE, ts=TS, cached_tokens=1).to_json_dict()
    assert row == {
        "schema_version": 1,
        "ts": TS,
        "request_id": "r1",
        "client_request_id": "mine-7",
        "app_id": "shop",
        "route": "/v1/completions",
        "model": "lab-1m",
        "stream": True,
        "max_tokens": 16,
        "reason": "stop",
        "outcome": "ok",
        "finish_reason": "stop",
        "http_status": 200,
        "socket_end": "complete",
        "late": {"client_disconnect": 1},
        "prompt_tokens": 3,
        "completion_tokens": 3,
        "total_tokens": 6,
        "cached_tokens": 1,
        "reasoning_tokens": None,
        "truncated": False,
        "usage_source": "engine",
        "proposed_tokens": 0,
        "accepted_tokens": 0,
        "generated_tokens": 4,
        "sent_tokens": 3,
        "delivered_tokens": 2,
        "trimmed_tokens": 1,
        "dropped_tokens": 0,
        "discarded_tokens": None,
        "admit_ms": 500.0,
        "queue_ms": 1500.0,
        "prefill_ms": 1000.0,
        "decode_ms": 5000.0,
        "parked_ms": 2000.0,
        "transfer_ms": 3000.0,
        "e2e_ms": 13000.0,
        "ttft_ms": 3000.0,
        "tpot_ms": pytest.approx(5000 / 3),
        "tpot_sent_ms": 4500.0,
        "clock_anomalies": 0,
    }
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert all(type(value) in (str, int, float, bool, dict, type(None)) for value in row.values())


def test_a_row_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().outcome = "ok"
    assert record().schema_version == SCHEMA_VERSION


def test_refusals_have_a_row_without_a_lifecycle():
    info = RequestInfo("r2")
    delivery = Delivery(429, SocketEnd.COMPLETE)
    row = refusal_record(info, Reason.RATE_LIMITED, delivery, arrived_at=5.0, closed_at=5.25, ts=TS)
    known = {name: value for name, value in row.to_json_dict().items() if value is not None}
    assert known == {
        "schema_version": 1,
        "ts": TS,
        "request_id": "r2",
        "app_id": "anonymous",
        "reason": "rate_limited",
        "outcome": "rejected",
        "http_status": 429,
        "socket_end": "complete",
        "late": {},
        "usage_source": "missing",
        "e2e_ms": 250.0,
        "clock_anomalies": 0,
    }


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_exactly_one_kind_of_row(reason):
    delivery = Delivery(ENDINGS[reason].status, None)
    if ENDINGS[reason].refusal:
        row = refusal_record(INFO, reason, delivery, arrived_at=0.0, closed_at=1.0, ts=TS)
    else:
        row = record(reason, delivery=delivery)
        with pytest.raises(TransitionError, match="no refusal"):
            refusal_record(INFO, reason, delivery, arrived_at=0.0, closed_at=1.0, ts=TS)
    assert (row.reason, row.outcome, row.http_status) == (
        reason,
        ENDINGS[reason].outcome,
        ENDINGS[reason].status,
    )
    assert row.finish_reason == (reason.value if reason in ("stop", "length") else None)


def test_no_row_before_the_end():
    life = Lifecycle()
    life.advance(State.PREFILL)
    life.model_done(Reason.STOP)
    with pytest.raises(TransitionError, match="flushing"):
        request_record(INFO, life, TokenCounts(), whole_run(), DONE, ts=TS)


@pytest.mark.parametrize("missing", ["ended_at", "closed_at"])
def test_no_row_without_the_stamps_of_the_end(missing):
    stamps = whole_run()
    setattr(stamps, missing, None)
    with pytest.raises(TransitionError, match="instants"):
        record(stamps=stamps)


def test_no_row_with_tokens_unaccounted_for():
    with pytest.raises(CountError, match="generated == sent"):
        record(counts=TokenCounts(generated=3, sent=2))


@pytest.mark.parametrize("reason", [Reason.CLIENT_CANCEL, Reason.OVERALL_DEADLINE, Reason.BACKEND_ERROR])
def test_T08_the_row_of_an_interrupted_stream_has_no_usage_rather_than_zeros(reason):
    row = record(reason, counts=TokenCounts(generated=3, sent=2, dropped=1))
    assert (row.completion_tokens, row.total_tokens, row.cached_tokens, row.truncated) == (None,) * 4
    assert row.usage_source == "missing"
    assert (row.prompt_tokens, row.generated_tokens, row.sent_tokens, row.dropped_tokens) == (3, 3, 2, 1)


@pytest.mark.parametrize(
    ("reason", "sent", "status"),
    [
        (Reason.CLIENT_DISCONNECT, None, 499),
        (Reason.CLIENT_CANCEL, None, 499),
        (Reason.CLIENT_DISCONNECT, 200, 200),
        (Reason.OVERALL_DEADLINE, 200, 200),
        (Reason.OVERALL_DEADLINE, 504, 504),
        (Reason.OVERALL_DEADLINE, None, None),
        (Reason.SLOW_CONSUMER, 200, 200),
        (Reason.LEASE_EXPIRED, None, None),
    ],
)
def test_the_status_is_the_one_that_was_sent(reason, sent, status):
    assert record(reason, delivery=Delivery(sent, SocketEnd.ABORTED)).http_status == status


# -- stamps


def test_a_request_that_ended_in_the_queue():
    stamps = Stamps(0.0, 1.0)
    stamps.on_ended(11.0)
    stamps.on_closed(11.5)
    row = record(
        Reason.QUEUE_TIMEOUT, stamps=stamps, counts=TokenCounts(), delivery=Delivery(503, SocketEnd.COMPLETE)
    )
    assert (row.admit_ms, row.queue_ms, row.transfer_ms, row.e2e_ms) == (1000, 10000, 500, 11500)
    assert (row.prefill_ms, row.decode_ms, row.ttft_ms, row.tpot_ms, row.tpot_sent_ms) == (None,) * 5


def test_a_request_that_ended_in_prefill():
    stamps = Stamps(0.0, 0.0)
    stamps.on_started(2.0)
    stamps.on_ended(5.0)
    stamps.on_closed(6.0)
    row = record(Reason.TTFT_TIMEOUT, stamps=stamps, counts=TokenCounts())
    assert (row.queue_ms, row.prefill_ms, row.decode_ms, row.transfer_ms) == (2000, 3000, None, 1000)


def test_a_request_that_ended_parked():
    stamps = Stamps(0.0, 0.0)
    stamps.on_started(0.0)
    stamps.on_token(1.0)
    stamps.on_token(3.0)
    stamps.on_parked(3.0)
    stamps.on_parked(5.0)
    stamps.on_ended(23.0)
    stamps.on_resumed(30.0)
    stamps.on_closed(24.0)
    row = record(Reason.SLOW_CONSUMER, stamps=stamps, counts=TokenCounts(generated=2, sent=1, dropped=1))
    assert (row.decode_ms, row.parked_ms, row.transfer_ms, row.e2e_ms) == (2000, 20000, 1000, 24000)
    assert row.tpot_ms == 2000, "the park came after the last token"


def test_one_token_has_no_tpot_and_no_decode_time():
    stamps = Stamps(0.0, 0.0)
    stamps.on_started(0.0)
    stamps.on_token(1.0)
    stamps.on_sent(1.0)
    stamps.on_ended(1.0)
    stamps.on_closed(1.0)
    row = record(stamps=stamps, counts=TokenCounts(generated=1, sent=1))
    assert (row.tpot_ms, row.tpot_sent_ms, row.decode_ms, row.ttft_ms) == (None, None, 0.0, 1000.0)


def test_a_token_that_comes_in_a_park_had_been_on_its_way():
    stamps = Stamps(0.0, 0.0)
    stamps.on_started(0.0)
    stamps.on_token(1.0)
    stamps.on_parked(2.0)
    stamps.on_token(4.0)
    stamps.on_resumed(9.0)
    stamps.on_ended(9.0)
    stamps.on_closed(10.0)
    row = record(Reason.DRAIN, stamps=stamps, counts=TokenCounts(generated=2, sent=2))
    assert (row.decode_ms, row.parked_ms, row.transfer_ms, row.clock_anomalies) == (1000, 7000, 1000, 0)


def test_a_resume_without_a_park_is_nothing():
    stamps = Stamps(1.0, 2.0)
    stamps.on_resumed(5.0)
    known = {name: value for name, value in stamps.snapshot().items() if value is not None}
    assert known == {"arrived_at": 1.0, "accepted_at": 2.0, "parked": 0.0, "parked_before_last": 0.0}
    assert "'arrived_at': 1.0" in repr(stamps)


def test_a_negative_interval_is_unknown_and_counted():
    stamps = whole_run()
    stamps.started_at = 99.0  # from another clock
    row = record(stamps=stamps)
    assert row.queue_ms is None
    assert row.prefill_ms == 4000.0
    assert row.clock_anomalies == 1
    stamps.closed_at = 50.0
    assert record(stamps=stamps).clock_anomalies == 3
    refused = refusal_record(INFO, Reason.INVALID, DONE, arrived_at=2.0, closed_at=1.0, ts=TS)
    assert (refused.e2e_ms, refused.clock_anomalies) == (None, 1)


def test_rounding_is_no_fault_of_a_clock():
    stamps = Stamps(0.0, 0.0)
    stamps.on_started(0.0)
    stamps.on_token(1.2)
    for start, end in itertools.pairwise([1.2, 2.1, 2.5, 3.4, 3.7]):
        stamps.on_parked(start)
        stamps.on_resumed(end)
    stamps.on_token(3.7)
    stamps.on_ended(3.7)
    stamps.on_closed(3.7)
    assert -1e-15 < 3.7 - 1.2 - stamps.parked < 0, "the sum that this test is about"
    row = record(stamps=stamps)
    assert (row.decode_ms, row.clock_anomalies) == (0.0, 0)


STEPS = st.lists(
    st.tuples(
        st.floats(0, 50, allow_subnormal=False), st.sampled_from(["on_token", "on_parked", "on_resumed"])
    ),
    max_size=25,
)
WAIT = st.floats(0, 50, allow_subnormal=False)


@given(WAIT, st.none() | WAIT, st.none() | WAIT, STEPS, WAIT, WAIT)
def test_the_parts_add_up_wherever_the_request_ended(admit, queue, prefill, steps, to_end, to_close):
    clock = VirtualClock(1000.0)
    stamps = Stamps(clock.now(), clock.advance(admit))
    if queue is not None:
        stamps.on_started(clock.advance(queue))
        if prefill is not None:
            stamps.on_token(clock.advance(prefill))
            for wait, name in steps:
                getattr(stamps, name)(clock.advance(wait))
    stamps.on_ended(clock.advance(to_end))
    stamps.on_closed(clock.advance(to_close))
    row = record(Reason.DRAIN, stamps=stamps)
    assert row.clock_anomalies == 0
    assert sum(getattr(row, part) or 0.0 for part in PARTS) == pytest.approx(row.e2e_ms, abs=1e-3)
