"""The writers: one request's answer as a stream of events, or whole.

A writer takes what is queued, sends it, and says what was sent; when there is nothing to do it waits for a
wake. It decides nothing: every ending is decided by the owner, and the writer only gives it its words.
Several queued events go out in one ASGI send; each is still one event and one credit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from lab.core.endings import ENDINGS, AfterFirstByte, Reason
from lab.core.lifecycle import State
from lab.core.record import final_usage
from lab.core.sse import encode_event
from lab.core.tokens import Usage
from lab.server.owner import RequestOwner
from lab.server.request import Request
from lab.server.wire import DONE, Wire

MESSAGES: Mapping[Reason, str] = {
    Reason.CLIENT_CANCEL: "the request was cancelled",
    Reason.QUEUE_TIMEOUT: "the request waited too long for its turn",
    Reason.TTFT_TIMEOUT: "no token came in time",
    Reason.IDLE_TIMEOUT: "the model made no progress for too long",
    Reason.OVERALL_DEADLINE: "the deadline of the request has passed",
    Reason.DRAIN: "the server is shutting down",
    Reason.BACKEND_ERROR: "the model failed on this request",
    Reason.WORKER_LOST: "the engine process was lost",
}
"""What the client reads, for each ending of which it is told."""


def usage_of(request: Request) -> Usage | None:
    """The usage of a request whose model is done; None while it is not."""
    natural = request.natural
    return None if natural is None else final_usage(request.counts, natural, request.info.prompt_tokens)


class EventStream(EventSourceResponse):
    """An event stream written by the request's own loop.

    The framing of the response, its headers and its pings are sse-starlette's. Its body loop is not used:
    that one runs four tasks per response, begins before there is a first event, ends all streams at SIGTERM,
    and closes only the generator when a send takes too long.
    """

    def __init__(
        self, request: Request, owner: RequestOwner, wire: Wire, headers: Mapping[str, str], ping: float
    ) -> None:
        super().__init__(_NoBody(), headers=headers, ping=ping, sep="\n")
        del self.headers["connection"]  # the server knows whether the connection lives on
        self._request = request
        self._owner = owner
        self._wire = wire
        self._ping_bytes = ServerSentEvent(comment="ping", sep="\n").encode()
        self._ping_due = False
        self._ping_timer: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Writes the response from its start to its close. ``receive`` belongs to somebody else."""
        try:
            self._request.status = self.status_code
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            self._set_ping_timer(self.ping_interval)
            await self._write(send)
        finally:
            if self._ping_timer is not None:
                self._ping_timer.cancel()

    async def _write(self, send: Send) -> None:
        request, owner, delta = self._request, self._owner, self._wire.delta
        lifecycle, queue = request.lifecycle, request.queue
        first = self._wire.first()
        head = b"" if first is None else encode_event(first)
        while (state := lifecycle.state) is not State.ENDED:
            last = state is State.FLUSHING
            if queue or last:
                pieces = queue.drop_all()
                body = head + b"".join([encode_event(delta(piece.text)) for piece in pieces])
                head = b""
                if last:
                    body += self._farewell()
                await send({"type": "http.response.body", "body": body, "more_body": not last})
                if request.left():
                    await request.wait_ended()
                    return
                owner.sent(request, pieces)
                if last:
                    request.complete = True
                    owner.flushed(request)
                    return
            elif self._ping_due:
                self._ping_due = False
                await send({"type": "http.response.body", "body": self._ping_bytes, "more_body": True})
            else:
                await request.changed()
        await self._last_words(send)

    def _farewell(self) -> bytes:
        """The end of an answer that came to its natural end: finish reason, usage if asked for, [DONE]."""
        request, wire = self._request, self._wire
        usage = usage_of(request)
        if request.natural is None or usage is None:
            raise RuntimeError("an answer ends before the model is done")
        data = [wire.finish(request.natural.value)]
        if wire.include_usage:
            data.append(wire.usage(usage))
        return b"".join(map(encode_event, [*data, DONE]))

    async def _last_words(self, send: Send) -> None:
        """The ending after the first byte: one error event and [DONE], where somebody is there to read it."""
        reason = self._request.lifecycle.reason
        if reason is None or ENDINGS[reason].after is not AfterFirstByte.ERROR:
            return
        body = encode_event(self._wire.error(reason, MESSAGES[reason])) + encode_event(DONE)
        await send({"type": "http.response.body", "body": body, "more_body": False})
        self._request.complete = not self._request.left()

    def _set_ping_timer(self, seconds: float) -> None:
        if self.ping_interval > 0:
            self._ping_timer = asyncio.get_running_loop().call_later(seconds, self._on_ping_timer)

    def _on_ping_timer(self) -> None:
        """A ping is due when no event was sent for a whole interval; else the timer just moves on."""
        sent_at = self._request.stamps.last_sent_at or 0.0
        rest = sent_at + self.ping_interval - self._owner.clock.now()
        if rest <= 0:
            self._ping_due = True
            self._request.wake()
        self._set_ping_timer(rest if rest > 0 else self.ping_interval)


class _NoBody:
    """The body iterator that sse-starlette wants to have; nobody enters it."""

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        raise StopAsyncIteration
