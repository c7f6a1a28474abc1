"""What a client reads: streams word by word, policies, credits, pings, and answers in one piece."""

from __future__ import annotations

from typing import Any

import pytest

from lab.core.clock import MonotonicClock
from lab.core.endings import Reason
from lab.core.lifecycle import State
from lab.core.limits import LimitSettings
from lab.core.record import SocketEnd
from lab.engine.messages import Abort, Submit

pytestmark = pytest.mark.anyio


async def test_a_stream_word_by_word(bench: Any, settle: Any) -> None:
    async with bench(capacity=4) as b:
        call = b.completion()
        await settle()
        b.host.started()
        await settle()
        assert call.messages == []  # the response starts with its first event, so a 504 is still possible
        b.host.delta("he")
        await settle()
        assert (call.status, call.text) == (200, "he")
        b.host.delta("llo", " you")
        await settle()
        assert call.text == "hello you"
        b.host.done(4, trimmed=1)
        await settle()
        assert call.complete
        assert call.finish_reasons == ["stop"]
        assert call.events[-1] == "[DONE]"
        assert call.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert call.headers["cache-control"] == "no-store"
        assert call.headers["x-accel-buffering"] == "no"
        assert "connection" not in call.headers
    (record,) = b.records
    assert call.headers["x-request-id"] == record.request_id
    assert record.reason is Reason.STOP
    assert record.socket_end is SocketEnd.COMPLETE
    assert (record.generated_tokens, record.sent_tokens, record.trimmed_tokens) == (4, 3, 1)
    assert (record.prompt_tokens, record.completion_tokens) == (5, 3)
    assert record.discarded_tokens is None


async def test_a_chat_begins_with_the_role(bench: Any, settle: Any) -> None:
    async with bench() as b:
        body = {"model": "lab-1m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        call = b.call("/v1/chat/completions", body)
        await settle()
        b.host.started()
        b.host.delta("yes")
        b.host.done(1, "length")
        await settle()
        first, text, last, end = call.events
        assert first["choices"][0]["delta"]["role"] == "assistant"
        assert text["choices"][0]["delta"] == {"content": "yes"}
        assert last["choices"][0]["finish_reason"] == "length"
        assert end == "[DONE]"
        assert len({chunk["id"] for chunk in (first, text, last)}) == 1
        assert text["system_fingerprint"] == "fp-fake"


async def test_the_role_is_said_once(bench: Any, settle: Any) -> None:
    async with bench() as b:
        body = {"model": "lab-1m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        call = b.call("/v1/chat/completions", body)
        await settle()
        b.host.started()
        for letter in "abc":
            b.host.delta(letter)
            await settle()
        b.host.done(3)
        await settle()
        deltas = [event["choices"][0]["delta"] for event in call.events[:-1]]
        assert ["role" in delta for delta in deltas] == [True, False, False, False, False]


async def test_a_model_that_says_nothing(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.completion()
        await settle()
        b.host.started()
        b.host.done(1, trimmed=1)
        await settle()
        assert (call.status, call.text, call.finish_reasons) == (200, "", ["stop"])


async def test_one_send_may_carry_several_events_and_returns_as_many_credits(bench: Any, settle: Any) -> None:
    async with bench(capacity=4) as b:
        call = b.completion()
        await settle()
        b.host.started()
        b.host.delta("a", "b", "c")
        await settle()
        assert [len(m["body"].split(b"data: ")) - 1 for m in call.messages[1:]] == [3]
        assert b.host.credits(b.host.attempt) == 3
        b.host.done(3)
        await settle()


async def test_credits_return_when_the_send_returned_and_not_before(bench: Any, settle: Any) -> None:
    async with bench(capacity=2) as b:
        call = await b.begun()
        call.block()
        b.host.delta("b", "c")
        await settle()
        assert b.host.credits(b.host.attempt) == 1
        b.host.parked()
        await settle()
        assert b.the_request().lifecycle.state is State.PARKED
        call.unblock()
        await settle()
        assert b.host.credits(b.host.attempt) == 3
        b.host.resumed()
        b.host.done(3)
        await settle()
        assert call.text == "abc"
    (record,) = b.records
    assert record.reason is Reason.STOP


async def test_the_natural_ending_waits_for_the_last_byte(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = await b.begun()
        call.block()
        b.host.done(1)
        await settle()
        assert b.the_request().lifecycle.state is State.FLUSHING
        assert b.records == []
        call.unblock()
        await settle()
        assert b.records[0].reason is Reason.STOP


async def test_model_done_and_200_events_queued_for_a_reader_that_stopped(bench: Any, settle: Any) -> None:
    """The slot is free at once; the ending is that of the reader, not of the model."""
    async with bench(slots=1, capacity=200, limits=LimitSettings(stall_timeout=5)) as b:
        call = b.completion()
        await settle()
        b.host.started()
        b.host.delta("x")
        await settle()
        call.block()
        b.host.delta("y")
        await settle()  # this one hangs in the send; the next 199 queue behind it
        for n in range(199):
            b.host.delta("z", index=n + 2)
        b.host.done(201, "length")
        await settle()
        request = b.the_request()
        assert request.lifecycle.state is State.FLUSHING
        assert len(request.queue) == 199
        other = b.completion()  # with one slot and no line, only a free slot lets it start
        await settle()
        b.host.started()
        b.host.delta("other")
        b.host.done(1)
        await settle()
        assert other.complete
        b.pass_time(5)
        await settle()
        assert call.transport.aborts == 1
        assert call.finish_reasons == []
    record = b.records[-1]
    assert record.reason is Reason.SLOW_CONSUMER
    assert record.socket_end is SocketEnd.ABORTED
    assert (record.generated_tokens, record.sent_tokens, record.dropped_tokens) == (201, 1, 200)
    assert b.host.of(Abort) == []  # the engine had nothing left to abort


async def test_coalesce_merges_what_waits_and_never_parks(bench: Any, settle: Any) -> None:
    async with bench(policy="coalesce", capacity=2) as b:
        call = b.completion()
        await settle()
        submit = b.host.of(Submit)[0]
        assert submit.coalesce
        b.host.started()
        b.host.delta("a")
        await settle()
        call.block()
        b.host.delta("b")
        await settle()
        for letter in "cdefg":
            b.host.delta(letter)
            await settle()
        assert len(b.the_request().queue) == 1
        call.unblock()
        b.host.done(7)
        await settle()
        texts = [e["choices"][0]["text"] for e in call.events[:-2]]
        assert texts == ["a", "b", "cdefg"]
    (record,) = b.records
    assert record.sent_tokens == 7


async def test_fail_ends_where_park_would_pause(bench: Any, settle: Any) -> None:
    async with bench(policy="fail", capacity=1) as b:
        call = await b.begun()
        call.block()
        b.host.delta("b")
        b.host.parked()
        await settle()
        assert call.transport.aborts == 1
    assert b.records[0].reason is Reason.SLOW_CONSUMER


async def test_too_many_bytes_for_one_reader(bench: Any, settle: Any) -> None:
    async with bench(capacity=8, max_queued_bytes=10) as b:
        call = await b.begun()
        call.block()
        b.host.delta("b")
        await settle()
        b.host.delta("é" * 6)  # six characters, twelve bytes
        await settle()
        assert call.transport.aborts == 1
        assert len(b.host.of(Abort)) == 1
    assert b.records[0].reason is Reason.SLOW_CONSUMER


async def test_early_commit_sends_headers_at_admission(bench: Any, settle: Any) -> None:
    async with bench(commit="early", limits=LimitSettings(queue_timeout=1)) as b:
        call = b.completion()
        await settle()
        assert call.status == 200
        b.pass_time(1)
        await settle()
        assert call.error_code == "queue_timeout"
        assert call.events[-1] == "[DONE]"
    assert b.records[0].http_status == 200


async def test_a_ping_when_nothing_was_sent_for_an_interval(bench: Any, settle: Any) -> None:
    async with bench(ping_interval=0.01) as b:
        b.owner.clock = MonotonicClock()
        call = b.completion()
        await settle()
        b.host.started()
        b.host.delta("a")
        while call.body.count(b": ping") < 2:
            await call.sent.wait()
        b.host.done(1)
        await settle()
        assert call.text == "a"
        assert call.complete


async def test_an_answer_in_one_piece(bench: Any, settle: Any) -> None:
    async with bench(capacity=2) as b:
        call = b.completion(stream=False)
        await settle()
        b.host.started()
        for letter in "many more events than the capacity":
            b.host.delta(letter)
        await settle()
        assert call.messages == []
        assert b.the_request().lifecycle.state is State.DECODE
        b.host.done(34, "length")
        await settle()
        assert call.status == 200
        assert call.json["choices"][0]["text"] == "many more events than the capacity"
        assert call.json["choices"][0]["finish_reason"] == "length"
        assert call.json["usage"] == {"prompt_tokens": 5, "completion_tokens": 34, "total_tokens": 39}
        assert call.headers["content-type"] == "application/json"
    assert b.records[0].sent_tokens == 34


async def test_a_whole_answer_nobody_takes_is_bounded_too(bench: Any, settle: Any) -> None:
    async with bench(limits=LimitSettings(stall_timeout=5)) as b:
        call = await b.begun(stream=False)
        call.block()
        b.host.done(1)
        await settle()
        b.pass_time(5)
        await settle()
        assert call.transport.aborts == 1
    assert b.records[0].reason is Reason.SLOW_CONSUMER


async def test_stamps_are_of_one_clock(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.completion()
        await settle()
        b.clock.advance(1)
        b.host.started()
        b.clock.advance(2)
        b.host.delta("a")
        await settle()
        b.clock.advance(3)
        b.host.delta("b")
        await settle()
        b.clock.advance(0.5)
        b.host.done(2)
        await settle()
        assert call.complete
    (record,) = b.records
    assert record.queue_ms == pytest.approx(1000)
    assert record.prefill_ms == pytest.approx(2000)
    assert record.decode_ms == pytest.approx(3000)
    assert record.transfer_ms == pytest.approx(500)
    assert record.ttft_ms == pytest.approx(3000)
    assert record.e2e_ms == pytest.approx(6500)


async def test_a_fault_in_the_handler_is_a_500_and_one_record(
    bench: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.server.generate import Generate

    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Generate, "_wire", broken)
    async with bench() as b:
        call = b.completion()
        await settle()
        assert (call.status, call.error_code) == (500, "backend_error")
        assert len(b.host.of(Abort)) == 1
    assert b.records[0].reason is Reason.BACKEND_ERROR


async def test_an_event_that_makes_no_sense_ends_that_request_alone(bench: Any, settle: Any) -> None:
    async with bench() as b:
        good, bad = b.completion(), b.completion()
        await settle()
        first, second = (submit.attempt_id for submit in b.host.of(Submit))
        b.host.started(first)
        b.host.resumed(second)  # it never started
        b.host.delta("fine", attempt=first)
        b.host.done(1, attempt=first)
        await settle()
        assert good.text == "fine"
        assert (bad.status, bad.error_code) == (500, "backend_error")
