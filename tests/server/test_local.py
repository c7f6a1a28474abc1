"""Over real sockets: small buffers, readers that stop or leave, two servers at once."""

from __future__ import annotations

import json
import logging
import socket
import struct
import urllib.error
import urllib.request
from typing import Any

import httpx
import pytest

from lab.core.endings import Reason
from lab.core.limits import LimitSettings
from lab.core.record import SocketEnd
from lab.http.errors import BindError
from lab.model.errors import ModelError
from lab.server.local import LocalServer
from lab.server.run import listen, url_of
from lab.server.settings import ServerSettings

BOTH = pytest.mark.parametrize("implementation", ["httptools", "h11"])


def post(url: str, **body: Any) -> httpx.Response:
    asked = {"model": "lab-1m", "prompt": "hi", "temperature": 0} | body
    return httpx.post(f"{url}/v1/completions", json=asked, timeout=20)


def read_to_the_end(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


@BOTH
def test_a_stream_over_a_socket(local: Any, implementation: str) -> None:
    with local(implementation=implementation) as s:
        answer = post(s.server.url, stream=True, max_tokens=50)
        events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
        assert "".join(json.loads(e)["choices"][0]["text"] for e in events[:-1]) == "x" * 50
        assert events[-1] == "[DONE]"
        (record,) = s.wait_records(1)
        assert record.reason is Reason.LENGTH
        assert record.socket_end is SocketEnd.COMPLETE
        assert record.late == {}


@BOTH
def test_one_connection_serves_many_requests(local: Any, implementation: str) -> None:
    with local(implementation=implementation) as s, httpx.Client(timeout=20) as client:
        for stream in (True, False, True):
            body = {"model": "lab-1m", "prompt": "hi", "max_tokens": 3, "temperature": 0, "stream": stream}
            assert client.post(f"{s.server.url}/v1/completions", json=body).status_code == 200
        assert len(s.wait_records(3)) == 3


@BOTH
@pytest.mark.parametrize("offered", ["h2c", "websocket"])
def test_an_offered_upgrade_is_ignored(
    local: Any, implementation: str, offered: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`curl --http2` offers h2c with its request. Two of them in one packet, the first byte alone, then no offer."""
    body = b'{"model": "lab-1m", "prompt": "hi", "max_tokens": 3, "temperature": 0}'
    offer = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {offered}\r\nHTTP2-Settings: AAMAAABk\r\n"
    rest = f"Host: x\r\nContent-Length: {len(body)}\r\n"
    first = b"POST /v1/completions HTTP/1.1\r\n" + (offer + rest + "\r\n").encode() + body
    last = b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\n" + (rest + "\r\n").encode() + body
    with local(implementation=implementation) as s, s.connect() as client:
        client.sendall(first[:1])
        client.sendall(first[1:] + first + last)
        answers = read_to_the_end(client)
        assert answers.count(b"HTTP/1.1 200 OK") == 3
        assert answers.count(b'"text":"xxx"') == 3
        assert [record.socket_end for record in s.wait_records(3)] == [SocketEnd.COMPLETE] * 3
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


@BOTH
def test_connect_is_no_request_for_this_server(local: Any, implementation: str) -> None:
    with local(implementation=implementation) as s, s.connect() as client:
        client.sendall(b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_to_the_end(client).startswith(b"HTTP/1.1 40")


@BOTH
def test_a_reader_that_stops_parks_itself_and_is_dropped(
    local: Any, implementation: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = LimitSettings(stall_timeout=0.3)
    with local(implementation=implementation, capacity=4, limits=limits) as s:
        client = s.connect(receive_buffer=4096)
        s.ask(client, stream=True, max_tokens=8000)
        assert client.recv(1)
        (record,) = s.wait_records(1)
        assert record.reason is Reason.SLOW_CONSUMER
        assert record.socket_end is SocketEnd.ABORTED
        assert record.parked_ms > 0
        assert record.generated_tokens < 1000  # the model stopped for it, long before its 8000 tokens
        assert record.dropped_tokens <= 5  # what the server itself still held: the queue, and one send
        with pytest.raises(ConnectionResetError):
            read_to_the_end(client)
        client.close()
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_a_reader_that_stops_is_noticed_early(local: Any) -> None:
    """With the buffers of `lab serve`: what lies behind a send is a hundred events and not thousands."""
    default = ServerSettings()
    buffers = {
        "socket_send_buffer": default.socket_send_buffer,
        "write_high_water": default.write_high_water,
    }
    limits = LimitSettings(stall_timeout=0.2)
    with local(capacity=4, limits=limits, **buffers) as s, s.connect(receive_buffer=4096) as client:
        s.ask(client, stream=True, max_tokens=8000)
        (record,) = s.wait_records(1)
        assert record.sent_tokens <= 120
        assert record.generated_tokens <= record.sent_tokens + 5


def test_an_answer_that_nobody_takes_does_not_hold_up_the_end(local: Any) -> None:
    """All of it was handed over, so the request is over; the socket still holds it, and a close would wait."""
    with local(write_high_water=1 << 20) as s, s.connect(receive_buffer=4096) as client:
        for _ in range(10):
            s.ask(client, max_tokens=2000)  # one after the other on one connection, none of them read
        assert {record.reason for record in s.wait_records(10)} == {Reason.LENGTH}
        s.server.stop()
        with pytest.raises(ConnectionResetError):
            read_to_the_end(client)


def test_a_slow_reader_slows_nobody_else(local: Any) -> None:
    with local(capacity=4) as s:
        slow = s.connect(receive_buffer=4096)
        s.ask(slow, stream=True, max_tokens=8000)
        assert slow.recv(1)
        assert post(s.server.url, max_tokens=500).status_code == 200
        slow.close()
        assert {record.reason for record in s.wait_records(2)} == {Reason.LENGTH, Reason.CLIENT_DISCONNECT}


@BOTH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("reset", [True, False])
def test_a_reader_that_leaves(local: Any, implementation: str, stream: bool, reset: bool) -> None:
    with local(implementation=implementation, step_seconds=0.001) as s:
        client = s.connect()
        s.ask(client, stream=stream, max_tokens=8000)
        if stream:
            assert client.recv(1)
        else:
            _until_started(s)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        (record,) = s.wait_records(1)
        assert record.reason is Reason.CLIENT_DISCONNECT
        assert record.socket_end is SocketEnd.CLIENT_CLOSED
        assert record.generated_tokens < 8000
        assert record.http_status == (200 if stream else 499)


def test_a_deadline_fires_while_the_socket_is_full(local: Any) -> None:
    limits = LimitSettings(overall_deadline=0.5, stall_timeout=20, flush_timeout=0.2)
    with local(capacity=4, limits=limits) as s:
        client = s.connect(receive_buffer=4096)
        s.ask(client, stream=True, max_tokens=8000)
        (record,) = s.wait_records(1)
        assert record.reason is Reason.OVERALL_DEADLINE
        assert record.socket_end is SocketEnd.ABORTED
        client.close()


@BOTH
def test_the_largest_buffers_serve(local: Any, implementation: str) -> None:
    most = (1 << 31) - 1
    with local(implementation=implementation, socket_send_buffer=most, write_high_water=most) as s:
        assert post(s.server.url, max_tokens=3).status_code == 200


def test_two_servers_do_not_know_of_each_other(local: Any) -> None:
    with local() as one:
        with local() as two:
            assert one.server.url != two.server.url
            client = one.connect()
            one.ask(client, stream=True, max_tokens=8000)
            assert client.recv(1)
            assert post(two.server.url, max_tokens=3).status_code == 200
        assert one.records == []  # the end of the other one did not touch this stream
        assert post(one.server.url, max_tokens=3).status_code == 200
        client.close()


def test_the_end_of_a_server_ends_its_streams_with_a_word(local: Any) -> None:
    with local(step_seconds=0.001) as s:
        client = s.connect()
        s.ask(client, stream=True, max_tokens=8000)
        assert client.recv(1)
        s.server.stop()
        rest = read_to_the_end(client)
        assert b'"code":"drain"' in rest
        assert b"data: [DONE]\n\n" in rest
        assert rest.endswith(b"0\r\n\r\n")
        client.close()
        s.server.stop()
    assert s.records[0].reason is Reason.DRAIN


def test_the_snapshot_shows_live_states(local: Any) -> None:
    with local(capacity=2) as s:
        client = s.connect(receive_buffer=4096)
        s.ask(client, stream=True, max_tokens=8000)
        assert client.recv(1)
        (request,) = s.server.snapshot()["requests"]
        assert request["state"] in ("decode", "parked")
        debug = json.load(urllib.request.urlopen(f"{s.server.url}/debug/requests", timeout=20))
        assert debug["requests"][0]["request_id"] == request["request_id"]
        client.close()


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(ModelError, match="no checkpoint"):
        LocalServer(ServerSettings(model="no-such-model")).start()


def test_an_address_in_use_is_one_line() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert url_of(taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(
            BindError, match=rf"^cannot listen on 127.0.0.1 port {port}: Address already in use$"
        ):
            listen("127.0.0.1", port)


def test_a_host_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(BindError, match=r"^cannot listen on no\.such\.host\.invalid port 8000: .+$"):
        listen("no.such.host.invalid", 8000)


def _until_started(s: Any) -> None:
    """Until the engine has the request."""
    with s.host.runner.prefills:
        assert s.host.runner.prefills.wait_for(lambda: s.host.runner.prefilled > 0, 20)
