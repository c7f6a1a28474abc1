"""uvicorn's HTTP protocols with three additions: small buffers, a way to abort the socket, and no upgrades.

ASGI gives an application no way to drop a connection whose reader has stopped: to close it politely waits
for that reader too. So each connection puts a ``Connection`` into ``scope["state"]``, from where the
application can abort it. And it shrinks the buffers behind ``send``: by default a client that reads
nothing would look healthy for thousands of events.

A client may offer another protocol with its request (``Upgrade: h2c``). A server that does not speak it may
ignore the offer (RFC 9110, 7.8), and so do both protocols here: the request is served as it stands.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Implementation = Literal["httptools", "h11"]
STATE_KEY = "lab.connection"
_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: close sends RST


class Connection:
    """One TCP connection, as the application may see it. ``lost`` is True once it is gone, whoever ended it."""

    __slots__ = ("_transport", "lost")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.lost = False

    def abort(self) -> None:
        """Resets the connection now, with all that is buffered. A second call does nothing.

        Without the linger setting the kernel would keep its own buffer and wait for the reader after all.
        """
        if self.lost:
            return  # its number may belong to another socket by now
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()


@dataclass(frozen=True, slots=True)
class SocketBuffers:
    """Bytes that may wait behind ``send``: in the kernel (``SO_SNDBUF``) and in the transport. None: the default."""

    send_buffer: int | None = None
    high_water: int | None = None

    def apply(self, transport: asyncio.Transport) -> None:
        """Sets both on a fresh connection."""
        if self.high_water is not None:
            transport.set_write_buffer_limits(high=self.high_water)
        if self.send_buffer is not None:
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer
            )


def connection_of(scope: Scope) -> Connection | None:
    """The connection of a request; None under a server that does not run these protocols."""
    connection = scope.get("state", {}).get(STATE_KEY)
    return connection if isinstance(connection, Connection) else None


def http_protocol(
    buffers: SocketBuffers, implementation: Implementation = "httptools"
) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's ``http`` setting."""
    base = {"httptools": _HttpTools, "h11": _H11}[implementation]
    return type(base.__name__, (base,), {"buffers": buffers})


def abort_connections(protocols: Iterable[object]) -> None:
    """Resets the connections that are still open: a polite close waits until the reader has taken all."""
    for protocol in list(protocols):
        if isinstance(protocol, _Connected):
            protocol.connection.abort()


class _Connected(asyncio.Protocol):
    """What both protocols have more than uvicorn's: a connection that a request can abort, and its buffers."""

    buffers = SocketBuffers()
    connection: Connection
    app_state: dict[str, Any]  # uvicorn copies it into the scope of each request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.connection = Connection(transport)
        self.app_state = {**self.app_state, STATE_KEY: self.connection}
        self.buffers.apply(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.lost = True
        super().connection_lost(exc)


class _HttpTools(_Connected, HttpToolsProtocol):
    """Without upgrades.

    The parser takes what follows an offered upgrade for the other protocol, and drops the body. So such a head
    starts no request; it is parsed once more without its offer, and the body after it.
    """

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            while True:
                try:
                    self.parser.feed_data(data)
                    return
                except httptools.HttpParserUpgrade as offer:
                    data = data[offer.args[0] :]
                    self._parse_again()
        except httptools.HttpParserError:
            message = "Invalid HTTP request received."
            self.logger.warning(message)
            self.send_400_response(message)

    def _parse_again(self) -> None:
        version = self.parser.get_http_version().encode()
        head = _head(self.parser.get_method(), self.url, version, self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self.parser.feed_data(head)

    def on_headers_complete(self) -> None:
        if self.parser.get_method() == b"CONNECT":  # an upgrade without an offer
            raise ValueError("CONNECT is for proxies")  # the parser makes a 400 of it
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()


class _H11(_Connected, H11Protocol):
    """Without upgrades: h11 itself goes on once the answer is no 101."""

    def _should_upgrade(self) -> bool:
        return False


def _head(method: bytes, target: bytes, version: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The head of a request, without its ``Upgrade``."""
    lines = [b"%b %b HTTP/%b" % (method, target, version)]
    lines += [b"%b: %b" % header for header in headers if header[0] != b"upgrade"]
    return b"\r\n".join([*lines, b"", b""])
