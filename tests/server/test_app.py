"""The endpoints beside generation, admission, and the answers to what cannot be served."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from lab.core.endings import Outcome, Reason
from lab.engine.messages import Stepped, StepStats
from lab.server.app import create_app
from lab.server.settings import ServerSettings

pytestmark = pytest.mark.anyio


async def get(b: Any, settle: Any, path: str, method: str = "GET", **more: Any) -> Any:
    call = b.call(path, method=method, **more)
    await settle()
    return call


async def test_models_health_and_readiness(bench: Any, settle: Any) -> None:
    async with bench() as b:
        models = await get(b, settle, "/v1/models")
        assert [model["id"] for model in models.json["data"]] == ["lab-1m"]
        one = await get(b, settle, "/v1/models/lab-1m")
        assert (one.status, one.json) == (200, models.json["data"][0])
        for path in ("/v1/models/nope", "/v1/models/lab/1m"):
            none = await get(b, settle, path)
            assert (none.status, none.error_code) == (404, "model_not_found")
        assert (await get(b, settle, "/healthz")).status == 200
        assert (await get(b, settle, "/readyz")).status == 200
        b.owner.drain()
        await settle()
        assert (await get(b, settle, "/healthz")).status == 200
        ready = await get(b, settle, "/readyz")
        assert (ready.status, ready.json["status"]) == (503, "draining")
        assert "retry-after" in ready.headers


async def test_metrics_count_what_was_recorded(bench: Any, settle: Any) -> None:
    async with bench() as b:
        b.completion(), b.completion()
        await settle()
        b.host.started()
        await settle()
        text = (await get(b, settle, "/metrics")).body.decode()
        assert "llm_inflight_requests 1.0" in text
        assert "llm_queue_depth 1.0" in text
        assert "llm_slots_free 4.0" in text
        b.owner.cut()
        await settle()
        text = (await get(b, settle, "/metrics")).body.decode()
        assert re.search(r'llm_requests_total{.*outcome="drain".*} 2\.0', text)


async def test_listed_applications_have_metrics_of_their_own(bench: Any, settle: Any) -> None:
    async with bench(apps=("shop",)) as b:
        for app in ("shop", "stranger"):
            b.call("/v1/completions", {"model": "lab-1m", "prompt": "x"}, headers={"X-App-Id": app})
        await settle()
        b.owner.cut()
        await settle()
        text = (await get(b, settle, "/metrics")).body.decode()
        counted = re.findall(r'llm_requests_total{app_id="(\w+)",.*outcome="drain".*} (\S+)', text)
        assert sorted(counted) == [("other", "1.0"), ("shop", "1.0")]


@pytest.mark.parametrize(
    ("path", "method", "status", "allow"),
    [
        ("/v1/completions", "GET", 405, "POST"),
        ("/v1/completions", "HEAD", 405, "POST"),
        ("/v1/completions", "OPTIONS", 204, "POST"),
        ("/v1/models", "DELETE", 405, "GET, HEAD"),
        ("/v1/models", "OPTIONS", 204, "GET, HEAD"),
        ("/v1/models", "HEAD", 200, None),
        ("/v1/models/", "GET", 404, None),
        ("/v1/models/lab-1m", "DELETE", 405, "GET, HEAD"),
        ("/nothing", "GET", 404, None),
        ("/v1/requests/x/cancel", "GET", 405, "POST"),
    ],
)
async def test_methods_and_paths(
    bench: Any, settle: Any, path: str, method: str, status: int, allow: str | None
) -> None:
    async with bench() as b:
        call = await get(b, settle, path, method)
        assert call.status == status
        assert call.headers.get("allow") == allow
        assert call.complete
        if status >= 400:
            assert call.json["error"]["message"]
    assert b.records == []


async def test_cancel_says_what_happened(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.completion()
        await settle()
        path = f"/v1/requests/{b.the_request().info.request_id}/cancel"
        first = await get(b, settle, path, "POST")
        assert (first.status, first.json["state"]) == (202, "queued")
        assert call.status == 499
        assert (await get(b, settle, path, "POST")).status == 409
        assert (await get(b, settle, "/v1/requests/unknown/cancel", "POST")).status == 404


async def test_cancel_while_the_last_words_are_written(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = await b.begun()
        call.block()
        b.host.delta("b")
        await settle()
        path = f"/v1/requests/{b.the_request().info.request_id}/cancel"
        assert (await get(b, settle, path, "POST")).status == 202
        again = await get(b, settle, path, "POST")  # ended, its response still open
        assert again.status == 409
        assert "client_cancel" in again.json["error"]["message"]
        call.unblock()


@pytest.mark.parametrize(
    ("client", "status"),
    [
        (("127.0.0.1", 1), 200),
        (("::1", 1), 200),
        (("::ffff:127.0.0.1", 1), 200),
        (("10.0.0.1", 1), 403),
        (("testclient", 1), 403),
        (None, 403),
    ],
)
async def test_debug_is_for_this_machine(bench: Any, settle: Any, client: Any, status: int) -> None:
    async with bench() as b:
        waiting = b.completion()
        await settle()
        call = await get(b, settle, "/debug/requests", client=client)
        assert call.status == status
        if status == 200:
            (request,) = call.json["requests"]
            assert request["state"] == "queued"
            assert request["request_id"] == b.the_request().info.request_id
        waiting.disconnect()


async def test_a_body_over_the_limit_is_413(bench: Any, settle: Any) -> None:
    async with bench(max_body_bytes=100) as b:
        declared = b.call("/v1/completions", b'{"prompt": "short"}', headers={"Content-Length": "101"})
        undeclared = b.call("/v1/completions", b"x" * 101)
        await settle()
        for call in (declared, undeclared):
            assert (call.status, call.error_code) == (413, "body_too_large")
            assert call.headers["connection"] == "close"
    assert [record.reason for record in b.records] == [Reason.INVALID] * 2


async def test_a_body_that_does_not_come_is_408(bench: Any, settle: Any) -> None:
    async with bench(body_timeout=0.01) as b:
        call = b.call("/v1/completions", b"")
        call._incoming.get_nowait()
        await call.task
        assert (call.status, call.error_code) == (408, "body_timeout")
    assert b.records[0].reason is Reason.INVALID


async def test_a_client_that_leaves_before_it_has_asked(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.call("/v1/completions", b"")
        call._incoming.get_nowait()
        call._incoming.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
        call.disconnect()
        await settle()
        assert call.messages == []
    assert b.records == []


async def test_bad_input_is_refused_and_recorded(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.call("/v1/completions", {"model": "nope", "prompt": "x"})
        await settle()
        assert call.status == 404
        assert call.json["error"]["param"] == "model"
        assert "x-request-id" in call.headers
    (record,) = b.records
    assert (record.reason, record.outcome, record.http_status) == (Reason.INVALID, Outcome.REJECTED, 404)
    assert record.request_id == call.headers["x-request-id"]
    assert record.generated_tokens is None
    assert b.host.commands == []


async def test_ignored_parameters_are_named(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.completion(user="me")
        await settle()
        b.host.started()
        b.host.delta("a")
        b.host.done(1)
        await settle()
        assert call.headers["x-ignored-params"] == "user"


async def test_the_callers_id_is_a_label_and_never_the_key(bench: Any, settle: Any) -> None:
    async with bench() as b:
        body = {"model": "lab-1m", "prompt": "x"}
        call = b.call("/v1/completions", body, headers={"X-Request-Id": "mine", "X-App-Id": "shop"})
        await settle()
        b.host.started()
        b.host.done(0)
        await settle()
        assert call.status == 200
    (record,) = b.records
    assert record.client_request_id == "mine"
    assert record.app_id == "shop"
    assert record.request_id != "mine"


async def test_the_callers_deadline_counts_from_arrival(bench: Any, settle: Any) -> None:
    async with bench() as b:
        call = b.call(
            "/v1/completions", {"model": "lab-1m", "prompt": "x"}, headers={"X-Request-Deadline-Ms": "250"}
        )
        await settle()
        b.pass_time(0.249)
        await settle()
        assert not call.task.done()
        b.pass_time(0.001)
        await settle()
        assert (call.status, call.error_code) == (504, "overall_deadline")


@pytest.mark.parametrize("values", [("250", "250"), ("1", "60000")])
async def test_two_deadlines_are_none(bench: Any, settle: Any, values: tuple[str, ...]) -> None:
    async with bench() as b:
        headers = [("X-Request-Deadline-Ms", value) for value in values]
        call = b.call("/v1/completions", {"model": "lab-1m", "prompt": "x"}, headers=headers)
        await settle()
        assert call.status == 400
        assert call.json["error"]["param"] == "X-Request-Deadline-Ms"
        assert "one whole number" in call.json["error"]["message"]
    assert b.host.commands == []


async def test_a_full_house_refuses(bench: Any, settle: Any) -> None:
    async with bench(slots=2, max_queued=1) as b:
        accepted = [b.completion() for _ in range(3)]
        refused = b.completion()
        await settle()
        assert (refused.status, refused.error_code) == (503, "overloaded")
        assert refused.headers["retry-after"] == "1"
        accepted[0].disconnect()
        await settle()
        again = b.completion()
        await settle()
        assert not again.task.done()
        b.owner.cut()
    assert b.records[0].reason is Reason.OVERLOADED


async def test_waiting_prompt_tokens_are_bounded(bench: Any, settle: Any) -> None:
    async with bench(max_waiting_prompt_tokens=12) as b:
        alone = b.completion(prompt="longer than twelve")  # one alone is always let in
        await settle()
        second = b.completion(prompt="x")
        await settle()
        assert second.error_code == "overloaded"
        b.host.started()
        b.host.delta("a")
        await settle()  # past its prefill, its prompt waits no more
        third = b.completion(prompt="x")
        await settle()
        assert not third.task.done()
        b.owner.cut()
        await settle()
        assert alone.status == 200


async def test_drain_sends_the_queued_away_and_lets_the_running_finish(bench: Any, settle: Any) -> None:
    async with bench() as b:
        running = b.completion()
        await settle()
        b.host.started()
        b.host.delta("a")
        await settle()
        attempt = b.host.attempt
        queued = b.completion()
        await settle()
        b.owner.drain()
        await settle()
        late = b.completion()
        await settle()
        assert (queued.status, queued.error_code) == (503, "drain")
        assert (late.status, late.error_code) == (503, "draining")
        assert "retry-after" in queued.headers
        assert "retry-after" in late.headers
        assert late.headers["connection"] == "close"
        assert not running.task.done()
        b.host.delta("b", attempt=attempt)
        b.host.done(2, attempt=attempt)
        await asyncio.wait_for(b.owner.empty(), 1)
        assert running.text == "ab"
        assert running.finish_reasons == ["stop"]


@pytest.mark.parametrize("stepped", [True, False])
async def test_a_lost_engine_is_said_and_not_served(bench: Any, settle: Any, stepped: bool) -> None:
    async with bench() as b:
        running = b.completion()
        await settle()
        b.host.started()
        if stepped:
            stats = StepStats(1, 1, 5, 0.01, running=1, waiting=2, parked=3, slots_free=3)
            b.host.say(Stepped(stats))
        b.host.on_exit(-9)
        await settle()
        assert (running.status, running.error_code) == (502, "worker_lost")
        assert (await get(b, settle, "/readyz")).json["status"] == "engine_lost"
        assert (await get(b, settle, "/healthz")).status == 200
        assert "llm_slots_free 0.0" in (await get(b, settle, "/metrics")).body.decode()
        engine = (await get(b, settle, "/debug/requests")).json["engine"]
        nothing = {"step": 1, "running": 0, "waiting": 0, "parked": 0, "slots_free": 0}
        assert engine == (nothing if stepped else None)
        call = b.completion()
        await settle()
        assert (call.status, call.error_code) == (503, "worker_lost")
        assert "the engine is gone" in call.json["error"]["message"]
    assert b.records[-1].reason is Reason.OVERLOADED


async def test_a_sink_that_fails_harms_nobody(bench: Any, settle: Any) -> None:
    async with bench() as b:
        b.service._on_record = lambda record: 1 / 0
        call = b.completion()
        await settle()
        b.host.started()
        b.host.delta("a")
        b.host.done(1)
        await settle()
        assert call.complete
        assert b.owner.snapshot()["requests"] == []


async def test_the_lifespan_starts_and_stops_the_engine(bench: Any, settle: Any) -> None:
    async with bench() as b:
        b.service._on_record = None
        incoming: asyncio.Queue[Any] = asyncio.Queue()
        outgoing: asyncio.Queue[Any] = asyncio.Queue()
        app = asyncio.create_task(
            b.service.app({"type": "lifespan", "state": {}}, incoming.get, outgoing.put)
        )
        incoming.put_nowait({"type": "lifespan.startup"})
        assert (await outgoing.get())["type"] == "lifespan.startup.complete"
        assert b.host.alive
        incoming.put_nowait({"type": "lifespan.shutdown"})
        await app
        assert (await outgoing.get())["type"] == "lifespan.shutdown.complete"
        assert not b.host.alive


def test_create_app_is_an_asgi_application() -> None:
    assert callable(create_app(ServerSettings(), lambda on_events, on_exit: None))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    "wrong",
    [
        {"capacity": 0},
        {"capacity": 4, "low": 4},
        {"policy": "drop"},
        {"ping_interval": -1},
        {"port": 70000},
        {"max_queued": -1},
        {"max_running": 0},
        {"commit": "late"},
        {"slots": 0},
        {"apps": ("shop", "two words")},
        {"slots": 4097},
        {"threads": 1025},
        {"max_len": 10**20},
        {"write_high_water": -1},
        {"write_high_water": 1 << 31},
        {"socket_send_buffer": 1 << 31},
        {"ping_interval": float("nan")},
        {"grace": float("inf")},
        {"body_timeout": float("nan")},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, Any]) -> None:
    from lab.core.errors import CoreError

    with pytest.raises(CoreError, match=next(iter(wrong)) if "low" not in wrong else "low"):
        ServerSettings(**wrong)
