"""What the messages of the engine do to the requests they are about, each in one synchronous step.

The first delta makes a request DECODE, a done makes it FLUSHING, and so on along the table of the lifecycle.
A message about a request that has ended changes nothing but a count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lab.core.endings import Reason
from lab.core.errors import CapacityError
from lab.core.lifecycle import State
from lab.engine.messages import (
    Aborted,
    Delta,
    Done,
    Event,
    Failed,
    Parked,
    Resumed,
    Started,
    Stepped,
    StepStats,
)
from lab.server.request import Piece, Request
from lab.server.settings import Policy

_log = logging.getLogger(__name__)


class Inbox:
    """Takes batches of events. ``finish`` ends a request; ``left`` says that one has left the engine."""

    def __init__(
        self, policy: Policy, finish: Callable[[Request, Reason], bool], left: Callable[[], None]
    ) -> None:
        self.stats: StepStats | None = None
        self._policy = policy
        self._finish = finish
        self._left = left
        self._handlers: dict[type, Callable[[Request, Any, float], None]] = {
            Started: self._on_started,
            Delta: self._on_delta,
            Done: self._on_done,
            Aborted: self._on_aborted,
            Failed: self._on_failed,
            Parked: self._on_parked,
            Resumed: self._on_resumed,
        }

    def take(self, events: list[Event], requests: Mapping[str, Request], now: float) -> None:
        """The events of one step, in order. ``requests`` are the open ones by attempt id."""
        for event in events:
            kind = type(event)
            handler = self._handlers.get(kind)
            if handler is not None:
                request = requests.get(event.attempt_id)  # type: ignore[union-attr]
                if request is not None:
                    try:
                        handler(request, event, now)
                    except Exception:  # a fault in one request is not the others' business
                        _log.exception("request %s: cannot take %r", request.info.request_id, event)
                        self._finish(request, Reason.BACKEND_ERROR)
            elif kind is Stepped:
                self.stats = event.stats  # type: ignore[union-attr]

    def lose(self) -> None:
        """The engine is gone, and its slots with it: what it said last of them is no longer true."""
        if self.stats is not None:
            self.stats = replace(self.stats, running=0, waiting=0, parked=0, slots_free=0)

    def _on_started(self, request: Request, event: Started, now: float) -> None:
        if not request.ended:
            request.lifecycle.advance(State.PREFILL)
            request.stamps.on_started(event.at)
            request.limits.on_started(now)

    def _on_delta(self, request: Request, event: Delta, now: float) -> None:
        lifecycle, counts = request.lifecycle, request.counts
        state = lifecycle.state
        if state is State.ENDED:
            counts.discarded = (counts.discarded or 0) + event.tokens
            return
        if state is State.PREFILL:
            lifecycle.advance(State.DECODE)
        counts.generated += event.tokens
        request.stamps.on_token(event.at)
        request.limits.on_token(now)
        piece = Piece(event.text, event.tokens)
        if request.whole:
            request.limits.on_credit(now)
            request.queue.put(piece, len(event.text))
            return
        try:
            self._queue(request, piece)
        except CapacityError:  # more bytes than one reader may leave lying here
            self._finish(request, Reason.SLOW_CONSUMER)
        request.wake()

    def _queue(self, request: Request, piece: Piece) -> None:
        """Appends the event, or under ``coalesce`` merges it into the one that still waits."""
        queue = request.queue
        if self._policy == "coalesce" and (waiting := queue.take()) is not None:
            piece = Piece(waiting.text + piece.text, waiting.tokens + piece.tokens, waiting.events + 1)
        queue.put(piece, len(piece.text.encode()))

    def _on_done(self, request: Request, event: Done, now: float) -> None:
        request.engine_done = True
        if request.ended:
            request.lifecycle.model_done(Reason(event.reason))  # counted as late
            return
        counts = request.counts
        counts.trimmed = event.trimmed
        counts.generated = event.generated
        request.natural = Reason(event.reason)
        request.lifecycle.model_done(request.natural)
        request.limits.on_token(now)  # the last words wait for the reader like any event, and can be stuck
        request.limits.on_model_done(now)
        self._left()
        request.wake()

    def _on_aborted(self, request: Request, event: Aborted, now: float) -> None:
        request.engine_done = True
        counts = request.counts
        counts.discarded = (counts.discarded or 0) + event.discarded
        self._left()
        if not request.ended:  # the engine itself was stopped
            self._finish(request, Reason.WORKER_LOST)

    def _on_failed(self, request: Request, event: Failed, now: float) -> None:
        request.engine_done = True
        _log.error("request %s failed in the engine: %s", request.info.request_id, event.message)
        self._finish(request, Reason.BACKEND_ERROR)
        self._left()

    def _on_parked(self, request: Request, event: Parked, now: float) -> None:
        if request.ended:
            return
        if self._policy == "fail":
            self._finish(request, Reason.SLOW_CONSUMER)
            return
        request.lifecycle.advance(State.PARKED)
        request.stamps.on_parked(event.at)
        request.limits.on_parked(now)

    def _on_resumed(self, request: Request, event: Resumed, now: float) -> None:
        if not request.ended:
            request.lifecycle.advance(State.DECODE)
            request.stamps.on_resumed(event.at)
            request.limits.on_resumed(now)
