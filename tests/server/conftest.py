"""A scripted engine, a service on it, and an ASGI client that a test drives step by step."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from lab.core.clock import VirtualClock
from lab.core.record import RequestRecord
from lab.core.sse import SSEParser
from lab.engine.config import EngineInfo
from lab.engine.messages import (
    Abort,
    Aborted,
    Command,
    Credit,
    Delta,
    Done,
    Event,
    Failed,
    Parked,
    Resumed,
    Started,
    Stop,
    Submit,
)
from lab.http.protocol import STATE_KEY, Connection
from lab.server.local import LocalServer
from lab.server.request import Request
from lab.server.service import Service
from lab.server.settings import ServerSettings

TURNS = 12  # turns of the loop that any chain of wake-ups here fits into


async def settle() -> None:
    """Lets everything run that can run now. Nothing here waits for the clock, so this is exact, not a sleep."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


class FakeTokenizer:
    """One token per character; characters beyond the vocabulary wrap around."""

    eos_id = 0
    bos_id = 0
    vocab_size = 128

    def encode(self, text: str, bos: bool = True) -> list[int]:
        return [ord(letter) % 127 + 1 for letter in text]

    def chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return self.encode("".join(message["content"] for message in messages)) or [1]

    def token_bytes(self, token: int) -> bytes:
        return b"????"  # a token is a character, and none is longer


class FakeHost:
    """An engine that does what the test says, and remembers what it was told."""

    def __init__(self, clock: VirtualClock, slots: int = 4) -> None:
        self.info = EngineInfo("lab-1m", "fp-fake", slots, 64, 128, "cpu")
        self.clock = clock
        self.alive = True
        self.commands: list[Command] = []
        self.on_events: Callable[[list[Event]], None] = lambda events: None
        self.on_exit: Callable[[int | None], None] = lambda code: None

    def post(self, commands: Sequence[Command]) -> None:
        self.commands.extend(commands)

    def close(self, timeout: float = 5.0) -> None:
        self.alive = False

    def of(self, kind: type, attempt: str | None = None) -> list[Any]:
        """The commands of a kind, in order."""
        return [
            c for c in self.commands if type(c) is kind and attempt in (None, getattr(c, "attempt_id", None))
        ]

    @property
    def attempt(self) -> str:
        """The attempt that was submitted last."""
        return str(self.of(Submit)[-1].attempt_id)

    def credits(self, attempt: str) -> int:
        return sum(credit.n for credit in self.of(Credit, attempt))

    # Each says one thing about an attempt (the last one submitted unless named), as one batch.

    def say(self, *events: Event) -> None:
        self.on_events(list(events))

    def started(self, attempt: str | None = None) -> None:
        self.say(Started(attempt or self.attempt, self.clock.now()))

    def delta(self, *texts: str, tokens: int = 1, attempt: str | None = None, index: int = 0) -> None:
        now = self.clock.now()
        self.say(
            *(Delta(attempt or self.attempt, text, tokens, index + n, now) for n, text in enumerate(texts))
        )

    def done(
        self, generated: int, reason: Any = "stop", trimmed: int = 0, attempt: str | None = None
    ) -> None:
        self.say(Done(attempt or self.attempt, reason, generated, trimmed, self.clock.now()))

    def parked(self, attempt: str | None = None) -> None:
        self.say(Parked(attempt or self.attempt, self.clock.now()))

    def resumed(self, attempt: str | None = None) -> None:
        self.say(Resumed(attempt or self.attempt, self.clock.now()))

    def aborted(self, generated: int, discarded: int = 0, attempt: str | None = None) -> None:
        self.say(Aborted(attempt or self.attempt, generated, discarded, self.clock.now()))

    def failed(self, message: str = "broken", attempt: str | None = None) -> None:
        self.say(Failed(attempt or self.attempt, message, self.clock.now()))


class Signal:
    """Waits for the next ``set``, however many came before."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class FakeTransport:
    """What ``Connection.abort`` reaches: the call ends with ``http.disconnect``, as uvicorn does it."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.aborts = 0

    def get_extra_info(self, name: str) -> FakeTransport:
        return self

    def setsockopt(self, *option: Any) -> None:
        self.options = option

    def abort(self) -> None:
        self.aborts += 1
        self._call.disconnect()


class Call:
    """One ASGI call with a hand-made ``receive`` and ``send``.

    ``block`` makes every later ``send`` wait until ``unblock``, like a socket whose reader has stopped. After
    ``disconnect`` a ``send`` returns and does nothing, as uvicorn's does.
    """

    def __init__(self, app: Any, scope: dict[str, Any], body: bytes) -> None:
        self.messages: list[dict[str, Any]] = []
        self.gone = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.transport = FakeTransport(self)
        self.connection = Connection(self.transport)  # type: ignore[arg-type]
        scope.setdefault("state", {})[STATE_KEY] = self.connection
        self.blocked_sends = 0
        self.blocked = Signal()
        self.sent = Signal()
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        return await self._incoming.get()

    async def _send(self, message: dict[str, Any]) -> None:
        if not self._writable.is_set():
            self.blocked_sends += 1
            self.blocked.set()
            await self._writable.wait()
        if not self.gone:
            self.messages.append(message)
        self.sent.set()

    def disconnect(self) -> None:
        """The connection is lost, whoever closed it."""
        self.gone = self.connection.lost = True
        self._incoming.put_nowait({"type": "http.disconnect"})
        self._writable.set()

    def disconnect_quietly(self) -> None:
        """``http.disconnect`` is there to be received, but a blocked send stays blocked."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    def block(self) -> None:
        self._writable.clear()

    def unblock(self) -> None:
        self._writable.set()

    @property
    def status(self) -> int | None:
        starts = [message for message in self.messages if message["type"] == "http.response.start"]
        assert len(starts) <= 1
        return starts[0]["status"] if starts else None

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def complete(self) -> bool:
        return (
            bool(self.messages)
            and self.messages[-1].get("more_body", False) is False
            and len(self.messages) > 1
        )

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of every event so far, decoded; ``[DONE]`` stays as it is."""
        parser = SSEParser()
        return [e.data if e.data == "[DONE]" else json.loads(e.data) for e in parser.feed(self.body)]

    @property
    def text(self) -> str:
        """What a chat or completion client has read so far."""
        chunks = [chunk for chunk in self.events if isinstance(chunk, dict)]
        choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
        return "".join(c.get("text") or c.get("delta", {}).get("content") or "" for c in choices)

    @property
    def error_code(self) -> str | None:
        """The code of the error, in-band or as the whole body."""
        if self.status == 200:
            errors = [e["error"]["code"] for e in self.events if isinstance(e, dict) and "error" in e]
            assert len(errors) <= 1
            return errors[0] if errors else None
        return None if self.status is None else str(self.json["error"]["code"])

    @property
    def finish_reasons(self) -> list[str]:
        found = [
            c["choices"][0]["finish_reason"] for c in self.events if isinstance(c, dict) and c.get("choices")
        ]
        return [reason for reason in found if reason is not None]


class Bench:
    """A service on a scripted engine and a clock that stands still."""

    def __init__(self, settings: ServerSettings, slots: int) -> None:
        self.clock = VirtualClock(100.0)
        self.host = FakeHost(self.clock, slots)
        self.records: list[RequestRecord] = []
        self.service = Service(
            settings, self._start, lambda model: FakeTokenizer(), self.records.append, self.clock
        )
        self.calls: list[Call] = []

    def _start(self, on_events: Any, on_exit: Any) -> FakeHost:
        self.host.on_events, self.host.on_exit = on_events, on_exit
        return self.host

    @property
    def owner(self) -> Any:
        return self.service.owner

    def call(
        self,
        path: str = "/v1/completions",
        body: Any = None,
        method: str = "POST",
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        client: tuple[str, int] | None = ("127.0.0.1", 50000),
        app: Any = None,
    ) -> Call:
        """Starts an ASGI call; ``await settle()`` lets it run."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "scheme": "http",
            "headers": [(n.lower().encode(), v.encode()) for n, v in pairs],
            "client": client,
            "server": ("127.0.0.1", 8000),
        }
        call = Call(app or self.service.app, scope, raw)
        self.calls.append(call)
        return call

    def completion(self, stream: bool = True, prompt: str = "hello", **extra: Any) -> Call:
        """A completion request, streamed unless told otherwise."""
        return self.call(body={"model": "lab-1m", "prompt": prompt, "stream": stream, **extra})

    async def begun(self, **asked: Any) -> Call:
        """A completion of which the engine has made the first event, "a"."""
        call = self.completion(**asked)
        await settle()
        self.host.started()
        self.host.delta("a")
        await settle()
        return call

    def pass_time(self, seconds: float) -> None:
        """Moves the clock, and does what the timer would do then."""
        self.clock.advance(seconds)
        self.owner.check_limits()

    def the_request(self) -> Request:
        (request,) = self.owner._open.values()
        return request


@pytest.fixture(scope="session", name="settle")
def _settle() -> Callable[[], Any]:
    return settle


@pytest.fixture(scope="session", name="bench_class")
def _bench_class() -> Callable[..., Bench]:
    """A ``Bench`` of a test's own, for one that makes many."""
    return lambda slots, **settings: Bench(ServerSettings(**settings), slots)


@pytest.fixture(scope="session", name="letter_runner")
def _letter_runner() -> Callable[..., Any]:
    return LetterRunner


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def bench() -> Callable[..., Any]:
    """``async with bench(capacity=4) as b:`` gives a started ``Bench``.

    When the block ends nothing may be left: no open request, no task, no record missing or made twice.
    """

    @asynccontextmanager
    async def make(slots: int = 4, **settings: Any) -> AsyncIterator[Bench]:
        before = asyncio.all_tasks()
        b = Bench(ServerSettings(**{"ping_interval": 0} | settings), slots)
        await b.service.start()
        try:
            yield b
            await settle()
            for call in b.calls:
                assert call.task.done(), "a call has not returned"
                call.task.result()
        finally:
            for call in b.calls:
                call.task.cancel()
            await asyncio.gather(*(call.task for call in b.calls), return_exceptions=True)
            await b.service.stop()
        await settle()
        assert not b.owner._open
        assert not b.owner._line
        assert asyncio.all_tasks() == before
        ids = [record.request_id for record in b.records]
        assert len(ids) == len(set(ids)), "a request has two records"
        for submit in b.host.of(Submit):
            assert len(b.host.of(Abort, submit.attempt_id)) <= 1

    return make


class LetterRunner:
    """A model for a real engine loop: after any token comes the letter x, until it is told to stop.

    ``step_seconds`` is how long one decode takes; a test that needs a stream to be still running makes it long.
    """

    def __init__(self, slots: int, max_len: int, step_seconds: float = 0.0) -> None:
        self.slots, self.max_len = slots, max_len
        self.prefilled = 0
        self.prefills = threading.Condition()
        self._step_seconds = step_seconds

    def prefill(self, tokens: Sequence[int], slot: int, start: int) -> Any:
        with self.prefills:
            self.prefilled += 1
            self.prefills.notify_all()
        return self._logits(1)[0]

    def decode(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int]) -> Any:
        if self._step_seconds:
            time.sleep(self._step_seconds)
        return self._logits(len(tokens))

    def _logits(self, rows: int) -> Any:
        import torch

        logits = torch.zeros(rows, 128)
        logits[:, ord("x")] = 9.0
        return logits


class LoopHost:
    """A real engine loop in a thread, on a ``LetterRunner``: no weights, all the rules of credits and slots."""

    def __init__(self, on_events: Any, slots: int = 4, step_seconds: float = 0.0) -> None:
        from lab.engine.detokenize import Vocabulary
        from lab.engine.loop import EngineLoop
        from lab.engine.mailbox import LocalMailbox

        self.info = EngineInfo("lab-1m", "fp-loop", slots, 8192, 128, "cpu")
        self.runner = LetterRunner(slots, 8192, step_seconds)
        vocabulary = Vocabulary([b"", *(bytes([byte]) for byte in range(1, 128))], eos_id=0)
        self.mailbox = LocalMailbox()
        self.loop = EngineLoop(self.runner, vocabulary, self.mailbox)
        self._thread = threading.Thread(target=self.loop.run, args=(on_events,), name="test-engine")
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def post(self, commands: Sequence[Command]) -> None:
        self.mailbox.put(commands)

    def close(self, timeout: float = 5.0) -> None:
        self.mailbox.put((Stop(),))
        self._thread.join(timeout)


class Local:
    """A ``LocalServer`` on a ``LoopHost``, and all its records."""

    def __init__(self, settings: ServerSettings, step_seconds: float, implementation: str) -> None:
        self.records: list[RequestRecord] = []
        self._recorded = threading.Condition()
        self._step_seconds = step_seconds
        self.host: LoopHost
        self.server = LocalServer(
            settings,
            self._start,
            on_record=self._on_record,
            load_tokenizer=lambda model: FakeTokenizer(),
            implementation=implementation,
        )

    def _start(self, on_events: Any, on_exit: Any) -> LoopHost:
        self.host = LoopHost(on_events, step_seconds=self._step_seconds)
        return self.host

    def _on_record(self, record: RequestRecord) -> None:
        with self._recorded:
            self.records.append(record)
            self._recorded.notify_all()

    def wait_records(self, count: int) -> list[RequestRecord]:
        """The records, once there are so many."""
        with self._recorded:
            assert self._recorded.wait_for(lambda: len(self.records) >= count, 20), self.records
            return list(self.records)

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        """A connected socket; with a small buffer it tells the server early that nobody reads."""
        host, port = self.server.url.removeprefix("http://").split(":")
        client = socket.socket()
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(20)
        client.connect((host, int(port)))
        return client

    def ask(self, client: socket.socket, **body: Any) -> None:
        """Sends a completion request."""
        raw = json.dumps({"model": "lab-1m", "prompt": "hello", "temperature": 0} | body).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n"
        client.sendall(head.encode() + raw)


@pytest.fixture
def local() -> Callable[..., Any]:
    """``with local(capacity=4) as server:`` gives a ``Local`` over real sockets; nothing may be left of it."""

    @contextmanager
    def make(
        step_seconds: float = 0.0, implementation: str = "httptools", **settings: Any
    ) -> Iterator[Local]:
        before = set(threading.enumerate())
        small = {"socket_send_buffer": 4096, "write_high_water": 0, "ping_interval": 0, "max_len": 8192}
        serving = Local(ServerSettings(**small | settings), step_seconds, implementation)
        with serving.server:
            yield serving
        assert serving.host.loop.snapshot()["slots"] == {}
        assert serving.server.service.owner._open == {}
        assert set(threading.enumerate()) <= before

    return make
