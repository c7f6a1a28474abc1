"""The two additions to uvicorn's protocols: small buffers, and a connection that can be reset."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from lab.http.protocol import STATE_KEY, Connection, SocketBuffers, connection_of, http_protocol


class FakeTransport:
    """Remembers what it is told, and is its own socket."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def get_extra_info(self, name: str) -> FakeTransport:
        assert name == "socket"
        return self

    def setsockopt(self, *option: Any) -> None:
        self.calls.append(option)

    def set_write_buffer_limits(self, high: int) -> None:
        self.calls.append(("high", high))

    def abort(self) -> None:
        self.calls.append("abort")


def test_buffers_are_set_only_where_asked_for() -> None:
    transport = FakeTransport()
    SocketBuffers().apply(transport)  # type: ignore[arg-type]
    assert transport.calls == []
    SocketBuffers(send_buffer=4096, high_water=0).apply(transport)  # type: ignore[arg-type]
    assert transport.calls == [("high", 0), (socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)]


def test_an_abort_resets() -> None:
    transport = FakeTransport()
    Connection(transport).abort()  # type: ignore[arg-type]
    assert transport.calls == [(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)), "abort"]


def test_a_lost_connection_is_left_alone() -> None:
    """Its file descriptor may already be that of another socket."""
    transport = FakeTransport()
    connection = Connection(transport)  # type: ignore[arg-type]
    connection.lost = True
    connection.abort()
    assert transport.calls == []


def test_the_connection_is_found_in_the_scope() -> None:
    connection = Connection(FakeTransport())  # type: ignore[arg-type]
    assert connection_of({"type": "http", "state": {STATE_KEY: connection}}) is connection
    assert connection_of({"type": "http", "state": {}}) is None
    assert connection_of({"type": "http"}) is None


@pytest.mark.parametrize("implementation", ["httptools", "h11"])
def test_each_server_has_its_own_buffers(implementation: Any) -> None:
    small = http_protocol(SocketBuffers(high_water=1), implementation)
    large = http_protocol(SocketBuffers(high_water=2), implementation)
    assert (small.buffers.high_water, large.buffers.high_water) == (1, 2)  # type: ignore[attr-defined]
