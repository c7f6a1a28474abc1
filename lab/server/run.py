"""Running a service on a socket until it is told to stop: what ``lab serve`` and ``LocalServer`` share.

A stop is a drain: no new requests, those that wait are sent elsewhere, those that run have ``grace``
seconds; then the rest end as ``drain`` and get their last words; then the sockets close and the engine
stops. A second stop skips the grace.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from lab.http.errors import BindError
from lab.http.protocol import Implementation, SocketBuffers, abort_connections, http_protocol
from lab.http.signals import Server
from lab.server.service import Service

_CLOSE_TIMEOUT = 1.0  # seconds for readers to take what was handed over, once no response is open
_MARGIN = 1.0  # seconds beyond flush_timeout, for the records to be made


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    :raises BindError: in one line, when the address is in use or not ours.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise BindError(f"cannot listen on {host} port {port}: {reason}") from error


def url_of(listener: socket.socket) -> str:
    """Where clients reach a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Runner:
    """One service on one socket."""

    def __init__(
        self, service: Service, listener: socket.socket, implementation: Implementation = "httptools"
    ) -> None:
        self.service = service
        self._listener = listener
        self._stop = asyncio.Event()
        self._cut = asyncio.Event()
        settings = service.settings
        buffers = SocketBuffers(settings.socket_send_buffer, settings.write_high_water)
        self._server = Server(
            uvicorn.Config(
                service.app,
                http=http_protocol(buffers, implementation),
                lifespan="off",
                ws="none",
                proxy_headers=False,
                log_config=None,
                access_log=False,
                server_header=False,
            )
        )

    def stop(self) -> None:
        """The first call begins the drain, the second one cuts it short. In the loop of ``run``."""
        if self._stop.is_set():
            self._cut.set()
        self._stop.set()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serves until ``stop``, and returns when everything is closed; ``on_ready`` is called in between.

        :raises LabError: when the model cannot be loaded or the engine does not come up.
        """
        with self._listener:
            await self.service.start()
            try:
                serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
                on_ready()
                stopping = asyncio.create_task(self._stop.wait())
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                await self._drain()
                self._server.should_exit = True
                done, _ = await asyncio.wait({serving}, timeout=_CLOSE_TIMEOUT)
                if not done:
                    abort_connections(self._server.server_state.connections)
                await serving
            finally:
                await self.service.stop()

    async def _drain(self) -> None:
        owner, settings = self.service.owner, self.service.settings
        owner.drain()
        await self._wait_empty(settings.grace, unless=self._cut)
        owner.cut()
        await self._wait_empty(settings.limits.flush_timeout + _MARGIN)

    async def _wait_empty(self, timeout: float, unless: asyncio.Event | None = None) -> None:
        waits: set[asyncio.Task[Any]] = {asyncio.create_task(self.service.owner.empty())}
        if unless is not None:
            waits.add(asyncio.create_task(unless.wait()))
        _, pending = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
