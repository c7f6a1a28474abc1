"""Many streams at once from an OpenAI-compatible server, at as little cost to the machine as can be.

While the clock runs the client only collects bytes and stamps them; they are parsed afterwards. So a server that
shares its cores with this client is measured, and not the client.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import h11

from lab.core.sse import SSEParser

_READ = 1 << 16


class StreamFailed(RuntimeError):
    """A stream that was not what it should be: then nothing was measured."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server reached over plain HTTP: its address, and what its paths begin with."""

    host: str
    port: int
    path: str = ""

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """From `http://host:port`, with or without `/v1`.

        :raises ValueError: when it is no such address.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"need an address such as http://127.0.0.1:8000, not {url!r}")
        return cls(parts.hostname, parts.port or 80, parts.path.rstrip("/").removesuffix("/v1"))

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of a request, after whose response the server closes."""
        head = (
            f"{method} {self.path}{path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def get(self, path: str) -> Any:
        """A small JSON document.

        :raises StreamFailed: when it is not answered with one.
        """
        (pieces,) = _collect(self, [self.request("GET", path)], timeout=10).pieces
        try:
            return json.loads(b"".join(data for _, data in _body(pieces)))
        except ValueError as error:
            raise StreamFailed(f"{self.host}:{self.port}{path} gave no JSON") from error


@dataclass(frozen=True, slots=True)
class Run:
    """One run of several streams: seconds from the first byte asked to the last `[DONE]`, and to each first text."""

    seconds: float
    ttft: list[float]
    texts: list[str]


def run_streams(
    endpoint: Endpoint, bodies: Sequence[dict[str, Any]], tokens: int, timeout: float = 300
) -> Run:
    """Sends all bodies to `/v1/completions` at once and reads every stream to its end.

    :param tokens: what each stream must say in its usage
    :raises StreamFailed: when a stream is refused, broken off, or says another number of tokens
    """
    asked = [endpoint.request("POST", "/v1/completions", json.dumps(body).encode()) for body in bodies]
    collected = _collect(endpoint, asked, timeout)
    streams = [_parse(pieces, tokens) for pieces in collected.pieces]
    began = collected.began
    return Run(
        max(done for _, done, _ in streams) - began,
        [first - began for first, _, _ in streams],
        [text for _, _, text in streams],
    )


@dataclass(slots=True)
class _Collected:
    began: float
    pieces: list[list[tuple[float, bytes]]]


def _collect(endpoint: Endpoint, requests: Sequence[bytes], timeout: float) -> _Collected:
    """One connection for each request; what came on it, with the time of each read, until the server closed."""
    clock, selector = time.perf_counter, selectors.DefaultSelector()
    connections: list[socket.socket] = []
    collected = _Collected(0.0, [[] for _ in requests])
    try:
        for pieces in collected.pieces:
            connection = socket.create_connection((endpoint.host, endpoint.port), timeout=10)
            connections.append(connection)
            selector.register(connection, selectors.EVENT_READ, (connection, pieces))
        collected.began = clock()
        for connection, request in zip(connections, requests, strict=True):
            connection.sendall(request)
            connection.setblocking(False)
        open_connections, give_up = len(connections), collected.began + timeout
        while open_connections:
            ready = selector.select(give_up - clock())
            if not ready:
                raise StreamFailed(
                    f"{open_connections} of {len(requests)} streams did not end in {timeout:g} s"
                )
            for key, _ in ready:
                connection, pieces = key.data
                data = connection.recv(_READ)
                if data:
                    pieces.append((clock(), data))
                else:
                    selector.unregister(connection)
                    open_connections -= 1
    except OSError as error:
        raise StreamFailed(f"the connection to {endpoint.host}:{endpoint.port} failed: {error}") from error
    finally:
        selector.close()
        for connection in connections:
            connection.close()
    return collected


def _body(pieces: Sequence[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """The parts of the body with their times.

    :raises StreamFailed: on another status than 200, or a response that breaks off.
    """
    connection = h11.Connection(our_role=h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "x"), ("Connection", "close")]))
    connection.send(h11.EndOfMessage())
    body: list[tuple[float, bytes]] = []
    status = None
    try:
        for at, data in [*pieces, (0.0, b"")]:
            connection.receive_data(data)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body.append((at, bytes(event.data)))
                elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    break
            if connection.their_state in (h11.DONE, h11.CLOSED, h11.MUST_CLOSE):
                break
    except h11.RemoteProtocolError as error:
        raise StreamFailed(f"the response broke off: {error}") from error
    if status != 200:
        shown = b"".join(data for _, data in body)[:300].decode("utf-8", "replace")
        raise StreamFailed(f"the server answered {status}: {shown}")
    return body


def _parse(pieces: Sequence[tuple[float, bytes]], tokens: int) -> tuple[float, float, str]:
    """When the first text and `[DONE]` came, and the text."""
    parser, texts, used = SSEParser(), [], None
    first = done = None
    for at, data in _body(pieces):
        for event in parser.feed(data):
            if event.data == "[DONE]":
                done = at
                continue
            chunk = json.loads(event.data)
            if "error" in chunk:
                raise StreamFailed(f"a stream ended with an error: {event.data}")
            used = chunk.get("usage") or used
            for choice in chunk["choices"]:
                texts.append(choice["text"])
                first = at if first is None and choice["text"] else first
    if done is None or first is None:
        raise StreamFailed("a stream ended without text or without [DONE]")
    if used is None or used["completion_tokens"] != tokens:
        raise StreamFailed(f"a stream of {tokens} tokens says that it used {used}")
    return first, done, "".join(texts)
