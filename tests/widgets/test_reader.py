"""A paced reader against a scripted peer: it takes what it is asked for, and says what it saw."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab.core.sse import encode_event
from lab.widgets.reader import Reader, ReaderError

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: r1\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@contextmanager
def peer(answer: bytes, then: Callable[[socket.socket], None] = lambda sock: None) -> Iterator[str]:
    """Accepts one connection, reads the request's head, answers, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                got = b""
                while b"}" not in got:
                    got += sock.recv(4096)
                sock.sendall(answer)
                then(sock)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join()


def stream(*texts: str) -> bytes:
    return b"".join(chunk(encode_event(text)) for text in texts)


def test_it_takes_as_many_as_it_is_asked_for_and_then_the_rest() -> None:
    long = "x" * 100  # longer than one piece, so that none is taken unasked
    with peer(HEAD + stream(long, long, long, "[DONE]") + END) as url, Reader(url, {}) as reader:
        assert [event.data for event in reader.take(2)] == [long, long]
        assert len(reader.events) == 2
        assert not reader.ended
        assert [event.data for event in reader.rest()] == [long, "[DONE]"]
        assert reader.status == 200
        assert reader.headers["x-request-id"] == "r1"
        assert reader.complete
        assert reader.error_code is None


def test_an_error_inside_the_stream() -> None:
    with peer(HEAD + stream('{"error":{"code":"drain"}}', "[DONE]") + END) as url, Reader(url, {}) as reader:
        reader.rest()
        assert reader.error_code == "drain"


def test_an_error_as_the_whole_answer() -> None:
    body = b'{"error":{"code":"overall_deadline"}}'
    head = f"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with peer(head + body) as url, Reader(url, {}) as reader:
        assert reader.rest() == []
        assert reader.status == 504
        assert reader.error_code == "overall_deadline"
        assert not reader.complete


def test_a_stream_that_is_cut() -> None:
    with peer(HEAD + stream("a")) as url, Reader(url, {}) as reader:
        assert [event.data for event in reader.rest()] == ["a"]
        assert reader.ended
        assert not reader.complete


def test_a_stream_that_does_not_go_on() -> None:
    go = threading.Event()
    with peer(HEAD + stream("a"), lambda sock: go.wait(20) and None) as url, Reader(url, {}) as reader:
        try:
            assert len(reader.take(5, 0.05)) == 1
            with pytest.raises(ReaderError, match="not over after"):
                reader.rest(0.05)
        finally:
            go.set()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        Reader(f"http://127.0.0.1:{port}", {})
