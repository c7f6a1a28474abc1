"""A service: one engine, the owner of its requests, the sinks of its records, and the ASGI application.

``create_app`` gives the application alone; its lifespan starts and stops the engine. ``lab serve`` and
``LocalServer`` start the service themselves, so that an engine that does not come up is an exception here
and not a traceback in a server's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from starlette.routing import Router

from lab.core.clock import Clock
from lab.core.record import RequestRecord
from lab.engine.host import EngineHost, OnEvents, OnExit
from lab.server.api import ApiContext, ServingTokenizer
from lab.server.owner import RequestOwner
from lab.server.routes import make_router
from lab.server.settings import ServerSettings
from lab.telemetry.metrics import Metrics

HostFactory = Callable[[OnEvents, OnExit], EngineHost]
TokenizerFactory = Callable[[str], ServingTokenizer]
OnRecord = Callable[[RequestRecord], None]


class Service:
    """See the module. ``on_record`` is called with every record, after the metrics have seen it."""

    def __init__(
        self,
        settings: ServerSettings,
        host_factory: HostFactory,
        load_tokenizer: TokenizerFactory,
        on_record: OnRecord | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(settings.apps)
        self.owner = RequestOwner(settings, self._observe, clock)
        self.app = make_router(self, self._lifespan)
        self._host_factory = host_factory
        self._load_tokenizer = load_tokenizer
        self._on_record = on_record
        self._context: ApiContext | None = None

    @property
    def context(self) -> ApiContext:
        """What a request body is checked against.

        :raises RuntimeError: before ``start``.
        """
        if self._context is None:
            raise RuntimeError("the service has not started")
        return self._context

    async def start(self) -> None:
        """Starts the engine and takes requests from then on.

        :raises LabError: when the model cannot be loaded or the engine does not come up.
        """
        owner = self.owner
        host = await asyncio.to_thread(self._host_factory, owner.post_events, owner.post_exit)
        try:
            tokenizer = await asyncio.to_thread(self._load_tokenizer, host.info.model)
        except BaseException:
            await asyncio.to_thread(host.close)
            raise
        self._context = ApiContext((host.info.model,), tokenizer, host.info.max_len)
        owner.attach(host, asyncio.get_running_loop())

    async def stop(self) -> None:
        """Stops the engine. Whoever calls it has seen to it that no response is open."""
        await asyncio.to_thread(self.owner.host.close)

    def _observe(self, record: RequestRecord) -> None:
        self.metrics.observe(record)
        if self._on_record is not None:
            self._on_record(record)

    @asynccontextmanager
    async def _lifespan(self, app: Router) -> AsyncGenerator[None, None]:
        await self.start()
        try:
            yield
        finally:
            self.owner.cut()
            await self.owner.empty()
            await self.stop()
