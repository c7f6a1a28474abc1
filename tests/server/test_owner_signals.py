"""Every signal in every state: what the client sees, what the engine is told, and exactly one record.

The table is the contract. A row that is missing is a combination that cannot be.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lab.core.clock import MonotonicClock
from lab.core.endings import Reason
from lab.core.lifecycle import State
from lab.core.limits import LimitSettings
from lab.core.record import SocketEnd
from lab.engine.messages import Abort

pytestmark = pytest.mark.anyio

LIMITS = LimitSettings(
    queue_timeout=1, ttft_timeout=2, idle_timeout=3, overall_deadline=60, stall_timeout=5, flush_timeout=30
)
QUEUED, PREFILL, DECODE, PARKED, FLUSHING = (
    State.QUEUED,
    State.PREFILL,
    State.DECODE,
    State.PARKED,
    State.FLUSHING,
)
CANCEL, GONE, DRAIN = Reason.CLIENT_CANCEL, Reason.CLIENT_DISCONNECT, Reason.DRAIN
LOST, BROKEN, SLOW = Reason.WORKER_LOST, Reason.BACKEND_ERROR, Reason.SLOW_CONSUMER

# signal -> {state: (status, in-band code or None)}; a status of None: nothing was sent. In PARKED and
# FLUSHING the reader has stopped and reads on after the signal.
STREAM: dict[Reason, dict[State, tuple[int | None, str | None]]] = {
    CANCEL: {
        QUEUED: (499, "client_cancel"),
        PREFILL: (499, "client_cancel"),
        DECODE: (200, "client_cancel"),
        PARKED: (200, "client_cancel"),
        FLUSHING: (200, "client_cancel"),
    },
    GONE: {
        QUEUED: (None, None),
        PREFILL: (None, None),
        DECODE: (200, None),
        PARKED: (200, None),
        FLUSHING: (200, None),
    },
    Reason.QUEUE_TIMEOUT: {QUEUED: (503, "queue_timeout")},
    Reason.TTFT_TIMEOUT: {PREFILL: (504, "ttft_timeout")},
    Reason.IDLE_TIMEOUT: {DECODE: (200, "idle_timeout")},
    Reason.OVERALL_DEADLINE: {DECODE: (200, "overall_deadline"), PARKED: (200, "overall_deadline")},
    SLOW: {PARKED: (200, None), FLUSHING: (200, None)},
    DRAIN: {
        QUEUED: (503, "drain"),
        PREFILL: (503, "drain"),
        DECODE: (200, "drain"),
        PARKED: (200, "drain"),
        FLUSHING: (200, "drain"),
    },
    LOST: {
        QUEUED: (502, "worker_lost"),
        PREFILL: (502, "worker_lost"),
        DECODE: (200, "worker_lost"),
        PARKED: (200, "worker_lost"),
    },
    BROKEN: {
        QUEUED: (500, "backend_error"),
        PREFILL: (500, "backend_error"),
        DECODE: (200, "backend_error"),
        PARKED: (200, "backend_error"),
    },
}
STREAM_ROWS = [(reason, state, *seen) for reason, row in STREAM.items() for state, seen in row.items()]
# An answer in one piece has no first byte before its last, so every ending has its own status.
WHOLE_ROWS = [
    (CANCEL, QUEUED, 499),
    (CANCEL, PREFILL, 499),
    (CANCEL, DECODE, 499),
    (GONE, QUEUED, None),
    (GONE, PREFILL, None),
    (GONE, DECODE, None),
    (Reason.QUEUE_TIMEOUT, QUEUED, 503),
    (Reason.TTFT_TIMEOUT, PREFILL, 504),
    (Reason.IDLE_TIMEOUT, DECODE, 504),
    (DRAIN, QUEUED, 503),
    (DRAIN, PREFILL, 503),
    (DRAIN, DECODE, 503),
    (LOST, DECODE, 502),
    (BROKEN, DECODE, 500),
]


async def bring(b: Any, call: Any, state: State, settle: Any) -> None:
    """Drives a request into ``state``; from PARKED on its reader has stopped."""
    await settle()
    if state is QUEUED:
        return
    b.host.started()
    await settle()
    if state is PREFILL:
        return
    b.host.delta("a")
    await settle()
    if state is DECODE:
        return
    call.block()
    b.host.delta("b", "c")
    await settle()
    if state is PARKED:
        b.host.parked()
    else:
        b.host.done(4, "length", trimmed=1)
    await settle()
    assert b.the_request().lifecycle.state is state


async def signal(b: Any, call: Any, reason: Reason, settle: Any) -> None:
    """Makes happen what ends a request for ``reason``."""
    seconds = {
        Reason.QUEUE_TIMEOUT: 1,
        Reason.TTFT_TIMEOUT: 2,
        Reason.IDLE_TIMEOUT: 3,
        SLOW: 5,
        Reason.OVERALL_DEADLINE: None,
    }
    request = b.the_request()
    if reason is CANCEL:
        answer = b.call(f"/v1/requests/{request.info.request_id}/cancel")
        await settle()
        assert answer.status == 202
    elif reason is GONE:
        call.disconnect()
    elif reason is DRAIN:
        b.owner.cut()
    elif reason is LOST:
        b.host.on_exit(-9)
    elif reason is BROKEN:
        b.host.failed()
    elif (wait := seconds[reason]) is not None:
        b.pass_time(wait)
    else:
        b.owner.finish(request, reason)  # with these limits another one would be due before


@pytest.mark.parametrize(("reason", "state", "status", "code"), STREAM_ROWS)
async def test_stream(bench: Any, settle: Any, reason: Reason, state: State, status: int, code: str) -> None:
    async with bench(capacity=2, limits=LIMITS) as b:
        call = b.completion()
        await bring(b, call, state, settle)
        attempt = b.host.attempt
        await signal(b, call, reason, settle)
        await settle()
        engine_knows = state is FLUSHING or reason in (LOST, BROKEN)
        assert len(b.host.of(Abort, attempt)) == (0 if engine_knows else 1)
        b.host.aborted(5, 1, attempt=attempt)  # what the engine says to that; late for everybody
        call.unblock()
        await settle()
        assert (call.status, call.error_code) == (status, code)
        assert call.finish_reasons == [] if status == 200 else True
        if code is not None:
            assert call.complete
    (record,) = b.records
    assert record.reason is reason
    assert record.late == {}
    assert record.generated_tokens == record.sent_tokens + record.dropped_tokens + record.trimmed_tokens
    assert record.socket_end is {GONE: SocketEnd.CLIENT_CLOSED, SLOW: SocketEnd.ABORTED}.get(
        reason, SocketEnd.COMPLETE
    )
    assert record.http_status == (499 if status is None else status)


@pytest.mark.parametrize(("reason", "state", "status"), WHOLE_ROWS)
async def test_whole(bench: Any, settle: Any, reason: Reason, state: State, status: int) -> None:
    async with bench(limits=LIMITS) as b:
        call = b.completion(stream=False)
        await bring(b, call, state, settle)
        attempt = b.host.attempt
        await signal(b, call, reason, settle)
        await settle()
        assert len(b.host.of(Abort, attempt)) == (0 if reason in (LOST, BROKEN) else 1)
        assert call.status == status
        assert call.error_code == (None if status is None else reason.value)
        assert ("retry-after" in call.headers) is (status == 503) if status else True
    (record,) = b.records
    assert record.reason is reason
    assert record.sent_tokens == 0


@pytest.mark.parametrize("state", [QUEUED, PREFILL, DECODE, PARKED, FLUSHING])
async def test_the_first_signal_wins_and_the_others_are_counted(
    bench: Any, settle: Any, state: State
) -> None:
    async with bench(capacity=2, limits=LIMITS) as b:
        call = b.completion()
        await bring(b, call, state, settle)
        request = b.the_request()
        b.owner.finish(request, CANCEL)
        assert not b.owner.finish(request, DRAIN)
        assert not b.owner.finish(request, DRAIN)
        assert not b.owner.finish(request, Reason.IDLE_TIMEOUT)
        call.unblock()
        await settle()
    (record,) = b.records
    assert record.reason is CANCEL
    assert record.late == {"drain": 2, "idle_timeout": 1}


async def test_a_limit_comes_before_the_messages_of_the_same_batch(bench: Any, settle: Any) -> None:
    async with bench(limits=LIMITS) as b:
        call = b.completion()
        await settle()
        b.host.started()
        await settle()
        b.clock.advance(2)  # the first token arrives at the very instant at which it is too late
        b.host.delta("a")
        await settle()
        assert (call.status, call.error_code) == (504, "ttft_timeout")


async def test_a_limit_fires_while_the_writer_is_blocked(bench: Any, settle: Any) -> None:
    async with bench(capacity=8, limits=LIMITS) as b:
        call = b.completion()
        await bring(b, call, DECODE, settle)
        call.block()
        b.host.delta("b")
        await settle()
        assert call.blocked_sends == 1
        b.pass_time(3)
        assert b.the_request().lifecycle.reason is Reason.IDLE_TIMEOUT
        assert b.host.of(Abort) == []
        await settle()
        assert len(b.host.of(Abort)) == 1  # posted while the write still hangs
        call.unblock()
        await settle()
        assert call.error_code == "idle_timeout"


async def test_the_timer_needs_no_help_in_the_queue(bench: Any) -> None:
    """The same on the real clock: nothing calls check_limits but the timer."""
    async with bench(limits=LimitSettings(queue_timeout=0.01)) as b:
        b.owner.clock = MonotonicClock()
        call = b.completion()
        await call.task
        assert (call.status, call.error_code) == (503, "queue_timeout")


@pytest.mark.parametrize("stuck", [False, True])
async def test_the_timer_needs_no_help_later(bench: Any, settle: Any, stuck: bool) -> None:
    """A limit that begins to run with an event may be due long before those that ran until then."""
    limits = LimitSettings(stall_timeout=0.01) if stuck else LimitSettings(idle_timeout=0.01)
    async with bench(limits=limits) as b:
        b.owner.clock = MonotonicClock()
        call = b.completion()
        await settle()
        b.host.started()
        if stuck:
            b.host.delta("a")
            await settle()
            call.block()
            b.host.delta("b")
        await call.task
    assert b.records[0].reason is (SLOW if stuck else Reason.IDLE_TIMEOUT)


async def test_a_reader_that_reads_slowly_is_not_stuck(bench: Any, settle: Any) -> None:
    async with bench(limits=LimitSettings(stall_timeout=5, idle_timeout=None)) as b:
        call = b.completion()
        await bring(b, call, DECODE, settle)
        for _ in range(3):
            call.block()
            b.host.delta("b", "c")
            await settle()
            b.pass_time(4)
            call.unblock()
            await settle()
        b.host.done(7)
        await settle()
    assert b.records[0].reason is Reason.STOP


async def test_an_ending_drops_the_queue_at_once(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.completion()
        await bring(b, call, DECODE, settle)
        call.block()
        b.host.delta("b")
        await settle()  # this one is in the send
        b.host.delta("c")
        await settle()
        request = b.the_request()
        assert len(request.queue) == 1
        b.owner.finish(request, CANCEL)
        assert len(request.queue) == 0
        call.unblock()


async def test_the_flush_timer_ends_with_the_response(bench: Any, settle: Any) -> None:
    """The connection lives on and may already serve another request."""
    async with bench(limits=LimitSettings(flush_timeout=0.01)) as b:
        call = b.completion()
        await bring(b, call, DECODE, settle)
        b.owner.finish(b.the_request(), CANCEL)
        await call.task
        await asyncio.sleep(0.02)  # a timer that is still set would be due by now
        assert call.transport.aborts == 0


async def test_an_abort_is_made_once(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.completion()
        await bring(b, call, PARKED, settle)
        request = b.the_request()
        b.owner.finish(request, SLOW)
        request.abort_socket()
        await settle()
        assert call.transport.aborts == 1


async def test_a_reader_that_will_not_take_the_last_words_is_aborted(bench: Any, settle: Any) -> None:
    async with bench(limits=LimitSettings(flush_timeout=0.01)) as b:
        call = b.completion()
        await bring(b, call, DECODE, settle)
        call.block()
        b.host.delta("b")
        await settle()
        b.owner.finish(b.the_request(), CANCEL)
        await call.task
        assert call.transport.aborts == 1
    (record,) = b.records
    assert record.reason is CANCEL  # the reason stays
    assert record.socket_end is SocketEnd.ABORTED


async def test_under_a_server_without_abort_the_writer_is_cancelled(bench: Any, settle: Any) -> None:
    async with bench(limits=LimitSettings(flush_timeout=0.01)) as b:
        call = b.completion()
        await bring(b, call, DECODE, settle)
        b.the_request().connection = None
        call.block()
        b.host.delta("b")
        await settle()
        b.owner.finish(b.the_request(), CANCEL)
        await call.task
        assert call.task.cancelling() == 0
    (record,) = b.records
    assert record.socket_end is SocketEnd.ABORTED


async def test_a_request_that_ends_in_the_line_never_reaches_the_engine(bench: Any, settle: Any) -> None:
    from lab.engine.messages import Submit

    async with bench(max_running=1) as b:
        first, second, third = b.completion(), b.completion(), b.completion()
        await settle()
        assert len(b.host.of(Submit)) == 1
        second.disconnect()
        await settle()
        b.host.started()
        b.host.delta("a")
        b.host.done(1)
        await settle()
        assert first.complete
        assert len(b.host.of(Submit)) == 2
        b.host.started()
        b.host.delta("b")
        b.host.done(1)
        await settle()
        assert third.complete
        assert b.host.of(Abort) == []
