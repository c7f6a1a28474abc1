"""How far a server runs ahead of a client that reads nothing, and what shrinking the buffers changes.

Two measurements. ``count_sent`` is the smallest streaming server there is: it writes events of one size until
its ``send`` no longer returns, and counts them. ``serve_reader`` asks the real server for a real answer and
keeps its record. The claims are computed from the recorded samples by ``sent_claims`` and ``record_claims``.

Example: python -m lab.bench.never_reader --runs 7
"""

from __future__ import annotations

import asyncio
import json
import queue
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import click
import uvicorn
from sse_starlette import EventSourceResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lab.core.limits import LimitSettings
from lab.core.record import RequestRecord
from lab.evidence.record import record
from lab.http.protocol import SocketBuffers, http_protocol
from lab.server.local import LocalServer
from lab.server.run import listen
from lab.server.settings import ServerSettings

SMALL = 4096  # bytes
STUCK = 0.4  # seconds without one more event: the writer is blocked
EVENT_BYTES = 208  # one event on the wire, about what a chunk of a chat completion takes
UNBOUNDED = 1 << 20  # events, as a capacity that no answer reaches
TOKENS = 900
_TEXT = "x" * (EVENT_BYTES - len("data: \r\n\r\n"))
_REQUEST = b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Buffers:
    """The three sizes in bytes that hide a reader; None leaves one to the system.

    ``send``: SO_SNDBUF of the server; ``write``: high water of its transport; ``receive``: SO_RCVBUF of the client.
    """

    send: int | None = None
    write: int | None = None
    receive: int | None = None


SETTINGS: Mapping[str, Buffers] = {
    "nothing shrunk": Buffers(),
    "server shrunk": Buffers(SMALL, 0),
    "reader shrunk": Buffers(receive=SMALL),
    "both shrunk": Buffers(SMALL, 0, SMALL),
}


class EndlessStream:
    """The naive server: an event whenever the last one was taken, as any tutorial writes it. ``sent`` counts them."""

    def __init__(self) -> None:
        self.sent = 0

    async def _events(self) -> AsyncIterator[str]:
        while True:
            yield _TEXT
            self.sent += 1  # the framework took it: "sent"
            await asyncio.sleep(
                0
            )  # after a disconnect a send returns at once: without this the loop would spin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await EventSourceResponse(self._events())(scope, receive, send)


@contextmanager
def serving(app: ASGIApp, buffers: Buffers) -> Iterator[tuple[str, int]]:
    """Any application under uvicorn in a thread, on a free port; gone when the block ends."""
    with listen("127.0.0.1", 0) as listener:
        http = http_protocol(SocketBuffers(buffers.send, buffers.write))
        config = uvicorn.Config(
            app, http=http, lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="lab-naive-server")
        thread.start()
        try:
            yield listener.getsockname()[:2]
        finally:
            server.should_exit = True
            thread.join()


def connect(address: tuple[str, int], receive: int | None) -> socket.socket:
    """A client socket; its buffer must be set before it connects, or the window is already open."""
    client = socket.socket()
    if receive is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    client.connect(address)
    return client


def count_sent(buffers: Buffers) -> int:
    """Events that the naive server calls sent although its client has read no byte."""
    app = EndlessStream()
    with serving(app, buffers) as address, closing(connect(address, buffers.receive)) as client:
        client.sendall(_REQUEST)
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < STUCK:
            if app.sent != seen:
                seen, since = app.sent, time.monotonic()
            time.sleep(0.02)
    return seen


def serve_reader(buffers: Buffers, capacity: int, reads: bool) -> dict[str, Any]:
    """One answer of TOKENS tokens from the real server: its record beside what the reader has read."""
    settings = ServerSettings(
        slots=2, capacity=capacity, socket_send_buffer=buffers.send, write_high_water=buffers.write,
        limits=LimitSettings(stall_timeout=0.5), ping_interval=0,
    )  # fmt: skip
    records: queue.SimpleQueue[RequestRecord] = queue.SimpleQueue()
    with LocalServer(settings, on_record=records.put) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with closing(connect((host, int(port)), buffers.receive)) as client:
            client.sendall(_ask())
            raw = _read_all(client) if reads else b""
            row = records.get(timeout=30)
    return {
        "reason": row.reason.value, "socket_end": None if row.socket_end is None else row.socket_end.value,
        "generated": row.generated_tokens, "sent": row.sent_tokens, "read_bytes": len(raw),
        "done_seen": b"data: [DONE]" in raw,
    }  # fmt: skip


def _ask() -> bytes:
    body = {
        "model": "lab-1m",
        "prompt": "backpressure",
        "stream": True,
        "max_tokens": TOKENS,
        "ignore_eos": True,
    }
    raw = json.dumps(body | {"temperature": 0}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: lab\r\nConnection: close\r\nContent-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


def _read_all(client: socket.socket) -> bytes:
    client.settimeout(30)
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def sent_claims(event_bytes: int, runs: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """A recipe: for each setting the least, the median and the most events sent to a client that read none."""
    counts = {
        name: {"runs": len(events), "least": min(events), "median": median(events), "most": max(events)}
        for name, events in runs.items()
    }
    first, *_, last = (counts[name]["median"] for name in SETTINGS)
    return {"counts": counts, "event_bytes": event_bytes, "nothing_to_both_shrunk": first / last}


def record_claims(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """A recipe: for each server and reader the reasons, the tokens, and what was read."""
    return {
        name: {
            "runs": len(rows),
            "reasons": sorted({row["reason"] for row in rows}),
            "socket_ends": sorted({row["socket_end"] for row in rows}),
            "generated": [min(row["generated"] for row in rows), max(row["generated"] for row in rows)],
            "sent": [min(row["sent"] for row in rows), max(row["sent"] for row in rows)],
            "done_seen": sum(row["done_seen"] for row in rows),
            "read_nothing": all(row["read_bytes"] == 0 for row in rows),
        }
        for name, rows in runs.items()
    }


def servers() -> dict[str, tuple[Buffers, int, bool]]:
    """The real server, naive and fixed, each with a reader that never reads and with one that keeps up."""
    both = {"naive": (SETTINGS["nothing shrunk"], UNBOUNDED), "fixed": (SETTINGS["both shrunk"], 16)}
    return {
        f"{name}, {'reads all' if reads else 'never reads'}": (buffers, capacity, reads)
        for name, (buffers, capacity) in both.items()
        for reads in (False, True)
    }


@click.command()
@click.option(
    "--runs", type=click.IntRange(min=1), default=7, show_default=True, help="Runs of each setting, in turns."
)
def command(runs: int) -> None:
    """Record how far a server runs ahead of a client that reads nothing.

    Example: python -m lab.bench.never_reader --runs 7
    """
    counts: dict[str, list[int]] = {name: [] for name in SETTINGS}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in servers()}
    for _ in range(runs):
        for name, buffers in SETTINGS.items():
            counts[name].append(count_sent(buffers))
        for name, setting in servers().items():
            rows[name].append(serve_reader(*setting))
    said = f"python -m lab.bench.never_reader --runs {runs}"
    record(
        "10_streaming_over_sse/never_reader.json", kind="measured", recipe="lab.bench.never_reader:sent_claims",
        title="Events that a server calls sent while its client has read none, by the buffers between them",
        inputs={"event_bytes": EVENT_BYTES, "runs": counts}, command=said,
    )  # fmt: skip
    record(
        "10_streaming_over_sse/server_records.json", kind="measured", recipe="lab.bench.never_reader:record_claims",
        title="Records of the real server, naive and fixed, for a reader that never reads and one that keeps up",
        inputs={"runs": rows}, command=said,
    )  # fmt: skip


if __name__ == "__main__":
    command()
