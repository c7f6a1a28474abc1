"""A reader whose pace is under control: one streamed request over a bare socket.

Libraries read ahead into buffers of their own. This reader takes small pieces from its socket and stops in
the middle of the stream, as the chapter asks: event by event, all that is left, or not at all.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import h11

from lab.core.errors import CoreError
from lab.core.sse import SSEEvent, SSEParser

PIECE = 64  # bytes taken from the socket at once: less than an event, so that none is taken unasked
DONE = "[DONE]"


class ReaderError(CoreError):
    """The stream did not do what a reader may expect of it."""


class Reader:
    """Sends a request when made; reads nothing until it is asked to.

    ``receive_buffer`` is ``SO_RCVBUF`` in bytes, set before the connection is made; None leaves it to the
    system. ``events`` are those taken so far, ``ended`` is True once the response is over, or was cut.
    """

    def __init__(
        self,
        url: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        receive_buffer: int | None = 4096,
        path: str = "/v1/completions",
    ) -> None:
        """:raises OSError: when nobody listens there."""
        parts = urlsplit(url)
        self.events: list[SSEEvent] = []
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.content = b""  # the body of a response that is no event stream
        self.bytes_read = 0
        self.ended = False
        self._parser = SSEParser()
        self._http = h11.Connection(h11.CLIENT)
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            self._socket.connect((parts.hostname, parts.port))
            self._socket.sendall(self._request(path, parts.netloc, body, headers or {}))
        except OSError:
            self._socket.close()
            raise

    def _request(self, path: str, host: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
        raw = json.dumps(dict(body)).encode()
        fields = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(raw))}
        request = h11.Request(method="POST", target=path, headers=list((fields | dict(headers)).items()))
        return b"".join(
            self._http.send(part) or b"" for part in (request, h11.Data(data=raw), h11.EndOfMessage())
        )

    def take(self, count: int, seconds: float = 20.0) -> list[SSEEvent]:
        """The next ``count`` events; fewer when the stream ends or the time is over before."""
        before, until = len(self.events), time.monotonic() + seconds
        while len(self.events) < before + count and not self.ended:
            if not self._read(until):
                break
        return self.events[before:]

    def rest(self, seconds: float = 20.0) -> list[SSEEvent]:
        """All that is left.

        :raises ReaderError: when the stream is not over after ``seconds``.
        """
        before, until = len(self.events), time.monotonic() + seconds
        while not self.ended:
            if not self._read(until):
                raise ReaderError(f"the stream was not over after {seconds:g} s")
        return self.events[before:]

    @property
    def error_code(self) -> str | None:
        """The reason that the server gave: as the whole body, or as an event inside the stream."""
        texts = [event.data for event in self.events] if self.status == 200 else [self.content.decode()]
        for text in texts:
            value = json.loads(text) if text.startswith("{") else {}
            if "error" in value:
                return str(value["error"]["code"])
        return None

    @property
    def complete(self) -> bool:
        """It saw ``[DONE]``."""
        return bool(self.events) and self.events[-1].data == DONE

    def leave(self) -> None:
        """Closes the connection, whatever has not been read. A second call does nothing."""
        self._socket.close()

    def _read(self, until: float) -> bool:
        """One piece from the socket; False when the time was over before."""
        left = until - time.monotonic()
        if left <= 0:
            return False
        self._socket.settimeout(left)
        try:
            piece = self._socket.recv(PIECE)
        except TimeoutError:
            return False
        except ConnectionResetError:
            self.ended = True  # the server has dropped this reader
            return True
        self.bytes_read += len(piece)
        self._take(piece)
        return True

    def _take(self, piece: bytes) -> None:
        try:
            self._http.receive_data(piece)
            while (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                self._on(event)
                if self.ended:
                    return
        except h11.RemoteProtocolError:
            self.ended = True  # closed in the middle of the response

    def _on(self, event: Any) -> None:
        if isinstance(event, h11.Response):
            self.status = event.status_code
            self.headers = {name.decode(): value.decode() for name, value in event.headers}
        elif isinstance(event, h11.Data):
            if self.status == 200:
                self.events += self._parser.feed(bytes(event.data))
            else:
                self.content += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            self.ended = True

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
