"""Cancel, disconnect and slow readers: faults of other servers, replayed against this one.

Each test is named after the number of the fault. Above it stands what went wrong there.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import pytest
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Router

from lab.core.clock import MonotonicClock
from lab.core.endings import Reason
from lab.core.limits import LimitSettings
from lab.core.record import SocketEnd
from lab.engine.messages import Abort, Submit

pytestmark = pytest.mark.anyio


# vLLM: with any BaseHTTPMiddleware in place, requests that were not streamed ran on after their client had left.
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("started", [True, False])
async def test_S01_a_request_ends_when_its_client_leaves(
    bench: Any, settle: Any, stream: bool, started: bool
) -> None:
    async with bench() as b:
        call = b.completion(stream=stream)
        await settle()
        if started:
            b.host.started()
            b.host.delta("a")
            await settle()
        call.disconnect()
        await settle()
        assert b.host.of(Abort) == [Abort(b.host.attempt)]
    assert b.records[0].reason is Reason.CLIENT_DISCONNECT


async def test_S01_nothing_wraps_receive(bench: Any) -> None:
    async with bench() as b:
        assert type(b.service.app) is Router
        # a bound method of the router itself, no middleware around it
        assert b.service.app.middleware_stack == b.service.app.app
        assert not isinstance(b.service.app.middleware_stack, BaseHTTPMiddleware)


# llama.cpp: the server generated answers for clients that had left while their requests were still queued.
def test_S08_a_client_that_leaves_the_queue_costs_no_prefill(local: Any) -> None:
    with local(max_running=1, step_seconds=0.001) as s:
        running, queued = s.connect(), s.connect()
        with running, queued:
            s.ask(running, stream=True, max_tokens=4000)
            assert running.recv(1)
            s.ask(queued, stream=True, max_tokens=4000)
            while len(s.server.snapshot()["requests"]) < 2:
                pass
            queued.close()
            s.wait_records(1)
            running.close()
            s.wait_records(2)
            assert s.host.runner.prefilled == 1
    assert {record.reason for record in s.records} == {Reason.CLIENT_DISCONNECT}


async def test_S08_one_that_waits_in_the_engine_is_aborted_before_it_starts(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.completion()
        await settle()
        call.disconnect()
        await settle()
        assert [type(command) for command in b.host.commands] == [Submit, Abort]


# starlette: a stream was stuck for ever and starved the loop: its generator never really waited, and the server
# swallowed what it sent.
async def test_S13_a_server_that_swallows_sends_does_not_starve_the_loop(bench: Any, settle: Any) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with bench(capacity=1000) as b:
        call = await b.begun()
        call.gone = True  # from now on send returns and does nothing, and nobody says http.disconnect
        counter = asyncio.create_task(count())
        for n in range(50):
            b.host.delta(*"xyz", index=3 * n + 1)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert turns >= 100
        assert not call.task.done()
        call.disconnect()
        await settle()
        assert call.task.done()
        counter.cancel()


# sse-starlette: a disconnect that was already there before the first iteration, and a send that yields: the
# generator was never entered, so its finally, which held the release, never ran.
async def test_S14_a_disconnect_that_is_there_before_the_stream_begins(bench: Any, settle: Any) -> None:
    async with bench(commit="early") as b:
        call = b.completion()
        call.block()
        call.disconnect_quietly()
        await settle()
        assert b.host.of(Abort) == [Abort(b.host.attempt)]
        call.unblock()
        await settle()
        assert call.task.done()
    assert len(b.records) == 1


# granian: finally blocks were not run on a disconnect. What a server does differs, so two are tried.
@pytest.mark.parametrize("implementation", ["httptools", "h11"])
def test_S16_released_under_each_server(local: Any, implementation: str) -> None:
    with local(implementation=implementation, step_seconds=0.001) as s:
        for _ in range(5):
            with s.connect() as client:
                s.ask(client, stream=True, max_tokens=4000)
                assert client.recv(1)
        assert [record.reason for record in s.wait_records(5)] == [Reason.CLIENT_DISCONNECT] * 5
        assert s.server.snapshot()["requests"] == []


# anyio cancels by level: in a cancelled scope every await raises again, so a clean-up that awaits is dropped.
@pytest.mark.parametrize("stream", [True, False])
async def test_S17_released_in_a_cancelled_scope(bench: Any, settle: Any, stream: bool) -> None:
    async with bench() as b:
        scope = anyio.CancelScope()

        async def app(*connection: Any) -> None:
            with scope:
                await b.service.app(*connection)

        body = {"model": "lab-1m", "prompt": "x", "stream": stream}
        b.call("/v1/completions", body, app=app)
        await settle()
        b.host.started()
        b.host.delta("a")
        await settle()
        scope.cancel()
        await settle()
        assert b.host.of(Abort) == [Abort(b.host.attempt)]
    assert [record.reason for record in b.records] == [Reason.DRAIN]


# sse-starlette: a client that was frozen (curl and Ctrl-Z) held its generator for ever.
def test_S31_a_frozen_client_is_dropped(local: Any) -> None:
    with local(capacity=4, limits=LimitSettings(stall_timeout=0.2)) as s, s.connect(4096) as client:
        s.ask(client, stream=True, max_tokens=8000)
        assert client.recv(1)
        (record,) = s.wait_records(1)
        assert record.reason is Reason.SLOW_CONSUMER
        assert record.socket_end is SocketEnd.ABORTED


# sse-starlette: a ping could block as long as the reader liked; only data had a time limit.
async def test_S32_a_blocked_ping_is_bounded_like_any_write(bench: Any, settle: Any) -> None:
    limits = LimitSettings(idle_timeout=5, flush_timeout=0.01)
    async with bench(ping_interval=0.01, limits=limits) as b:
        b.owner.clock = MonotonicClock()
        call = await b.begun()
        call.block()
        await call.blocked.wait()
        b.owner.finish(b.the_request(), Reason.IDLE_TIMEOUT)
        await call.task
        assert call.transport.aborts == 1
    assert b.records[0].reason is Reason.IDLE_TIMEOUT
    assert b.records[0].socket_end is SocketEnd.ABORTED


# sse-starlette: a ping interval of 0 meant "as often as possible" and flooded the client.
async def test_S46_ping_zero_means_no_ping(bench: Any, settle: Any) -> None:
    async with bench(ping_interval=0, commit="early") as b:
        call = b.completion()
        await settle()
        b.host.started()
        for _ in range(100):
            await settle()
        assert call.body == b""
        b.host.delta("a")
        b.host.done(1)
        await settle()
        assert b": ping" not in call.body


# sse-starlette: HEAD on a stream never completed.
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/metrics", "/v1/models"])
async def test_S46_head_completes(bench: Any, settle: Any, path: str) -> None:
    async with bench() as b:
        call = b.call(path, method="HEAD")
        await settle()
        assert call.complete


# sse-starlette: the shielded close of a generator that hung could not be ended by anybody.
async def test_S46_no_close_can_hang(bench: Any, settle: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(limits=LimitSettings(flush_timeout=0.01)) as b:
        call = await b.begun()
        call.block()
        b.host.delta("b")
        await settle()
        call.task.cancel()
        await settle()
        with pytest.raises(asyncio.CancelledError):
            await call.task
        assert b.host.of(Abort) == [Abort(b.host.attempt)]
        b.calls.clear()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert len(b.records) == 1
