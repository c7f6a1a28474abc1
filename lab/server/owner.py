"""The owner of all requests: the one place in the serving process where a request changes its state.

Everything runs in the serving loop and nothing here awaits, so each signal (a batch of the engine, a limit,
a cancel, a disconnect, a drain) is one step. ``finish`` is that step for every ending but the natural ones:
the first caller wins, the engine is told, the queue is dropped, the writer is woken.

Commands to the engine are gathered and posted once per turn of the loop; its events come as one batch per
step of the engine. On each batch the limits that are due come first, then the messages. One timer stands at
the earliest instant at which a limit can be due; it belongs to no writer, so limits fire while writes hang.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lab.core.clock import Clock, MonotonicClock
from lab.core.endings import ENDINGS, AfterFirstByte, Reason
from lab.core.lifecycle import State
from lab.core.limits import Limits
from lab.core.record import Delivery, RequestInfo, RequestRecord, refusal_record, request_record
from lab.core.stamps import Stamps
from lab.engine.host import EngineHost
from lab.engine.messages import Abort, Command, Credit, Event, SamplingParams, StepStats
from lab.server.admission import Refused, check_bounds, send_queue, submit_command
from lab.server.inbox import Inbox
from lab.server.request import Piece, Request
from lab.server.settings import ServerSettings

_log = logging.getLogger(__name__)
_REMEMBERED = 1024  # endings kept after the close, so that a late cancel can be answered truly


class RequestOwner:
    """See the module. ``on_record`` gets the one record of every request, refusals included."""

    def __init__(
        self,
        settings: ServerSettings,
        on_record: Callable[[RequestRecord], None] = lambda record: None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or MonotonicClock()
        self.draining = False
        self.lost = False  # the engine is gone
        self._on_record = on_record
        self._loop: asyncio.AbstractEventLoop | None = None
        self._host: EngineHost | None = None
        self._open: dict[str, Request] = {}  # by attempt id, until the response is closed
        self._line: deque[Request] = deque()  # accepted, not posted: all places in the engine are taken
        self._ended: OrderedDict[str, Reason] = OrderedDict()
        self._outgoing: list[Command] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed_at = math.inf
        self._empty = asyncio.Event()
        self._empty.set()
        limits = settings.limits
        self._soonest = min(limits.idle_timeout or math.inf, limits.stall_timeout or math.inf)
        self._inbox = Inbox(settings.policy, self.finish, self._post_line)

    # The engine's side

    def attach(self, host: EngineHost, loop: asyncio.AbstractEventLoop) -> None:
        """The engine runs; requests may come. Called in the serving loop."""
        self._host, self._loop = host, loop

    @property
    def host(self) -> EngineHost:
        """The engine.

        :raises RuntimeError: before ``attach``.
        """
        if self._host is None:
            raise RuntimeError("no engine is attached")
        return self._host

    @property
    def stats(self) -> StepStats | None:
        """The engine's last word on its slots; None before its first step. A lost engine has and runs nothing."""
        return self._inbox.stats

    @property
    def slots_free(self) -> int:
        """Free slots of the engine; none once it is lost."""
        if self.lost:
            return 0
        return self.host.info.slots if self.stats is None else self.stats.slots_free

    @property
    def ready(self) -> bool:
        """New requests are welcome."""
        return self._host is not None and not self.draining and not self.lost

    def post_events(self, events: list[Event]) -> None:
        """Hands the batch of one step to the serving loop. From any thread; never blocks."""
        self._call_soon(self.on_batch, events)

    def post_exit(self, code: int | None) -> None:
        """The engine is gone. From any thread."""
        self._call_soon(self.on_worker_exit, code)

    def _call_soon(self, callback: Callable[[Any], None], argument: object) -> None:
        if self._loop is None:
            return  # before attach there is no request that an event could be about
        try:
            self._loop.call_soon_threadsafe(callback, argument)
        except RuntimeError:  # the loop is closed: so are all responses
            _log.debug("the serving loop is closed; dropped %r", argument)

    def on_batch(self, events: list[Event]) -> None:
        """The events of one engine step."""
        now = self.clock.now()
        if now >= self._armed_at:
            self.check_limits()
        self._inbox.take(events, self._open, now)
        self._arm(now + self._soonest)

    def on_worker_exit(self, code: int | None) -> None:
        """Nothing more will come from the engine: every live request ends here."""
        _log.error("the engine is gone (exit code %s)", code)
        self.lost = True
        self._inbox.lose()
        for request in list(self._open.values()):
            request.engine_done = True
            if request.active:
                self.finish(request, Reason.WORKER_LOST)

    # Admission

    def check_open(self) -> None:
        """Whether a request may come in at all, before any work is spent on it.

        :raises Refused: while draining, or when the engine is gone.
        """
        if self.draining:
            raise Refused(Reason.DRAINING, "the server is shutting down; send the request to another one")
        if not self.ready:
            message = "the engine is gone; send the request to another server"
            raise Refused(Reason.OVERLOADED, message, Reason.WORKER_LOST.value)

    def submit(
        self,
        info: RequestInfo,
        prompt: tuple[int, ...],
        params: SamplingParams,
        arrived_at: float,
        deadline_at: float | None = None,
    ) -> Request:
        """Accepts a request: QUEUED from here on, and one record is certain.

        :raises Refused: when an admission bound is reached, and as ``check_open``.
        """
        self.check_open()
        active = [request for request in self._open.values() if request.active]
        check_bounds(self.settings, self.host.info.slots, active, len(prompt))
        now = self.clock.now()
        request = Request(
            info,
            submit_command(self.settings, info, prompt, params),
            Limits(self.settings.limits, now, deadline_at),
            Stamps(arrived_at, now),
            send_queue(self.settings, info),
        )
        self._open[request.submit.attempt_id] = request
        self._empty.clear()
        self._line.append(request)
        self._post_line()
        self._arm(request.limits.next_due() or math.inf)
        return request

    def refuse(self, info: RequestInfo, reason: Reason, delivery: Delivery, arrived_at: float) -> None:
        """The record of a request that was never accepted."""
        self._emit(
            refusal_record(
                info, reason, delivery, arrived_at=arrived_at, closed_at=self.clock.now(), ts=_timestamp()
            )
        )

    def _post_line(self) -> None:
        """Posts what waits here, as far as ``max_running`` lets it."""
        bound = self.settings.max_running
        while self._line and (bound is None or self._posted() < bound):
            request = self._line.popleft()
            request.posted = True
            self._post(request.submit)

    def _posted(self) -> int:
        return sum(request.posted and not request.engine_done for request in self._open.values())

    # What the writer says

    def sent(self, request: Request, pieces: list[Piece]) -> None:
        """The ASGI send of these pieces returned: their credits go back to the engine."""
        if not pieces:
            return
        now = self.clock.now()
        events = 0
        for piece in pieces:
            request.counts.sent += piece.tokens
            events += piece.events
        request.stamps.on_sent(now)
        if request.ended or request.whole:
            return
        request.limits.on_credit(now, events)
        submit = request.submit
        if not request.engine_done and submit.capacity is not None:
            self._post(Credit(submit.attempt_id, events))

    def finish(self, request: Request, reason: Reason) -> bool:
        """Ends a request, unless something has ended it before. Any ending but the natural ones.

        :returns: True when this call was the first.
        """
        if not request.lifecycle.try_finish(reason):
            return False
        request.stamps.on_ended(self.clock.now())
        request.queue.drop_all()
        if not request.posted:
            self._line.remove(request)
        elif not request.engine_done:
            self._post(Abort(request.submit.attempt_id))
        self._end_delivery(request, ENDINGS[reason].after)
        return True

    def _end_delivery(self, request: Request, after: AfterFirstByte | None) -> None:
        """The writer gets ``flush_timeout`` for its last words, if there are any to be said."""
        if after is AfterFirstByte.ABORT:
            request.abort_socket()
        elif self._loop is not None:
            request.flush_timer = self._loop.call_later(
                self.settings.limits.flush_timeout, request.abort_socket
            )
        request.wake()

    def flushed(self, request: Request) -> bool:
        """The last byte was handed over: the natural ending, unless another one came before."""
        won = request.lifecycle.flushed()
        if won:
            request.stamps.on_ended(self.clock.now())
        return won

    def close(self, request: Request, delivery: Delivery) -> None:
        """The response is closed: the request is forgotten here, and its record is made.

        A request that nothing has ended yet ends now: whoever served it failed. A second call does nothing.
        """
        if not request.ended:
            self.finish(request, Reason.BACKEND_ERROR)
        if self._open.pop(request.submit.attempt_id, None) is None:
            return
        if request.flush_timer is not None:
            request.flush_timer.cancel()
        reason = request.lifecycle.reason
        if reason is not None:
            self._remember(request.info.request_id, reason)
        self._post_line()
        if not self._open:
            self._disarm()
            self._empty.set()
        counts = request.counts
        counts.dropped = counts.generated - counts.sent - counts.trimmed
        request.stamps.on_closed(self.clock.now())
        self._emit(
            request_record(request.info, request.lifecycle, counts, request.stamps, delivery, ts=_timestamp())
        )

    def _remember(self, request_id: str, reason: Reason) -> None:
        self._ended[request_id] = reason
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _emit(self, record: RequestRecord) -> None:
        try:
            self._on_record(record)
        except Exception:
            _log.exception("a sink of request records failed")

    # What everybody may ask for

    def find(self, request_id: str) -> Request | Reason | None:
        """The open request, or how it ended, or None when it is unknown (or forgotten long since)."""
        request = self._open.get(f"{request_id}.1")
        return request if request is not None else self._ended.get(request_id)

    def snapshot(self) -> dict[str, Any]:
        """All open requests and the engine's last word on its slots."""
        stats = self.stats
        return {
            "ready": self.ready,
            "draining": self.draining,
            "requests": [request.snapshot() for request in self._open.values()],
            "engine": None
            if stats is None
            else {
                name: getattr(stats, name) for name in ("step", "running", "waiting", "parked", "slots_free")
            },
        }

    def states(self) -> dict[State, int]:
        """How many open requests are in each state."""
        counted = dict.fromkeys(State, 0)
        for request in self._open.values():
            counted[request.lifecycle.state] += 1
        return counted

    # Drain

    def drain(self) -> None:
        """No new requests; those that have not started yet are sent elsewhere; the rest run on."""
        self.draining = True
        for request in list(self._open.values()):
            if request.lifecycle.state is State.QUEUED:
                self.finish(request, Reason.DRAIN)

    def cut(self) -> None:
        """Every request that still runs ends now."""
        self.draining = True
        for request in list(self._open.values()):
            if not request.ended:
                self.finish(request, Reason.DRAIN)

    async def empty(self) -> None:
        """Waits until no response is open."""
        await self._empty.wait()

    # Limits

    def check_limits(self) -> None:
        """Ends every request that has a limit due, and sets the timer anew."""
        now = self.clock.now()
        earliest = math.inf
        for request in list(self._open.values()):
            if request.ended:
                continue
            reason = request.limits.due(now)
            if reason is not None:
                self.finish(request, reason)
            else:
                earliest = min(earliest, request.limits.next_due() or math.inf)
        self._disarm()
        self._arm(earliest)

    def _arm(self, at: float) -> None:
        """Makes sure that the timer fires at ``at`` or before, while any request is open."""
        if at >= self._armed_at or not self._open or self._loop is None:
            return
        self._disarm()
        self._armed_at = at
        self._timer = self._loop.call_later(max(0.0, at - self.clock.now()), self.check_limits)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._armed_at = None, math.inf

    # Commands to the engine

    def _post(self, command: Command) -> None:
        if not self._outgoing and self._loop is not None:
            self._loop.call_soon(self._send)
        self._outgoing.append(command)

    def _send(self) -> None:
        commands, self._outgoing = self._outgoing, []
        if self._host is not None:
            self._host.post(commands)


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
