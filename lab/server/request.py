"""One request, from its acceptance to the close of its response: what its owner and its writer share.

All of it lives in the serving loop. The owner changes it when the engine or a limit speaks; the writer takes
what is queued and says what was sent. They meet in ``changed``, a future made only while the writer waits.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from lab.core.endings import Reason
from lab.core.lifecycle import Lifecycle, State
from lab.core.limits import Limits
from lab.core.record import Delivery, RequestInfo, SocketEnd
from lab.core.send_queue import SendQueue
from lab.core.stamps import Stamps
from lab.core.tokens import TokenCounts
from lab.engine.messages import Submit
from lab.http.protocol import Connection


class Piece(NamedTuple):
    """What waits for its reader: a text, its tokens, and of how many events of the engine it was made."""

    text: str
    tokens: int
    events: int = 1


class Request:
    """The handle. Whoever holds it can end the request; the ASGI wrapper alone closes it.

    ``posted``: the engine knows of it. ``engine_done``: the engine has reported its end of it, so that an
    abort would be pointless. ``whole``: the answer goes out in one piece, so its queue waits for nobody.
    """

    __slots__ = (
        "_waiter",
        "aborted",
        "complete",
        "connection",
        "counts",
        "engine_done",
        "flush_timer",
        "info",
        "lifecycle",
        "limits",
        "natural",
        "posted",
        "queue",
        "stamps",
        "status",
        "submit",
        "task",
        "whole",
    )

    def __init__(
        self, info: RequestInfo, submit: Submit, limits: Limits, stamps: Stamps, queue: SendQueue[Piece]
    ) -> None:
        self.info = info
        self.submit = submit
        self.limits = limits
        self.stamps = stamps
        self.queue = queue
        self.lifecycle = Lifecycle()
        self.counts = TokenCounts()
        self.natural: Reason | None = None
        self.whole = not info.stream
        self.posted = False
        self.engine_done = False
        self.status: int | None = None  # set when the response starts; it can no longer change then
        self.complete = False  # the last byte was handed over
        self.aborted = False  # the server dropped the connection
        self.connection: Connection | None = None
        self.task: asyncio.Task[Any] | None = None
        self.flush_timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def active(self) -> bool:
        """It holds a place in the engine or waits for one."""
        return self.lifecycle.state not in (State.FLUSHING, State.ENDED)

    @property
    def ended(self) -> bool:
        """Its one ending is decided; the response may still be open."""
        return self.lifecycle.state is State.ENDED

    def wake(self) -> None:
        """Something changed for the writer. Many calls before it runs are one."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self) -> None:
        """Waits for the next ``wake``. The writer alone calls it, after it has seen that there is nothing to do."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def wait_ended(self) -> None:
        """Waits for the ending that is certain to come, as after the loss of the connection."""
        while not self.ended:
            await self.changed()

    def left(self) -> bool:
        """The client is gone, or was sent away. A server may hide that: its ``send`` just returns."""
        lost = self.connection is not None and self.connection.lost
        return lost or self.aborted or self.lifecycle.reason is Reason.CLIENT_DISCONNECT

    def delivery(self) -> Delivery:
        """How the response left the socket, once it is closed."""
        if self.aborted:
            end = SocketEnd.ABORTED
        else:
            end = SocketEnd.COMPLETE if self.complete else SocketEnd.CLIENT_CLOSED
        return Delivery(self.status, end)

    def abort_socket(self) -> None:
        """Drops the connection; under a server that cannot, the writer is cancelled instead."""
        if self.aborted:
            return
        self.aborted = True
        if self.connection is not None:
            self.connection.abort()
        elif self.task is not None:
            self.task.cancel()

    def snapshot(self) -> dict[str, Any]:
        """The live state as plain values, for ``/debug/requests``."""
        counts = self.counts
        return {
            "request_id": self.info.request_id,
            "app_id": self.info.app_id,
            "model": self.info.model,
            "stream": self.info.stream,
            **self.lifecycle.snapshot(),
            "queue": self.queue.snapshot(),
            "limits": self.limits.snapshot(),
            "generated": counts.generated,
            "sent": counts.sent,
            "status": self.status,
        }
