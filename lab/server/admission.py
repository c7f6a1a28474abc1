"""The door: which requests are let in, and with what bounds they are sent to the engine."""

from __future__ import annotations

from collections.abc import Sequence

from lab.core.endings import Reason
from lab.core.lifecycle import State
from lab.core.record import RequestInfo
from lab.core.send_queue import SendQueue
from lab.engine.messages import SamplingParams, Submit
from lab.server.request import Piece, Request
from lab.server.settings import ServerSettings


class Refused(Exception):
    """The door is closed to a request.

    ``reason`` is a refusal of the table of endings; ``code`` is what the client is told (None: the reason).
    """

    def __init__(self, reason: Reason, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code


def check_bounds(settings: ServerSettings, slots: int, active: Sequence[Request], prompt_tokens: int) -> None:
    """Whether one more request fits beside those that run or wait.

    A prompt waits until its first token is there. One that waits alone is let in whatever its length.

    :raises Refused: overloaded, in requests or in prompt tokens.
    """
    places = slots if settings.max_running is None else min(slots, settings.max_running)
    waiting = len(active) - places
    if waiting >= settings.max_queued:
        raise Refused(Reason.OVERLOADED, f"{waiting} requests are waiting already")
    cold = [request for request in active if request.lifecycle.state in (State.QUEUED, State.PREFILL)]
    tokens = sum(len(request.submit.prompt) for request in cold)
    if cold and tokens + prompt_tokens > settings.max_waiting_prompt_tokens:
        raise Refused(Reason.OVERLOADED, f"{tokens} prompt tokens are waiting already")


def submit_command(
    settings: ServerSettings, info: RequestInfo, prompt: tuple[int, ...], params: SamplingParams
) -> Submit:
    """The first attempt at a request. An answer in one piece waits for no reader, so it never parks."""
    attempt = f"{info.request_id}.1"
    if not info.stream or settings.policy == "coalesce":
        return Submit(attempt, prompt, params, coalesce=True)
    return Submit(attempt, prompt, params, settings.capacity, settings.low)


def send_queue(settings: ServerSettings, info: RequestInfo) -> SendQueue[Piece]:
    """The queue of a request: bounded as the policy has it, unbounded for an answer in one piece."""
    if not info.stream:
        return SendQueue(None)
    return SendQueue(1 if settings.policy == "coalesce" else settings.capacity, settings.max_queued_bytes)
