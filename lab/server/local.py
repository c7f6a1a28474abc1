"""A server inside this process, for notebooks and tests: a thread, a free port, no signal handlers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import uvicorn

from lab.http.protocol import Implementation
from lab.server.app import load_tokenizer, process_factory, thread_factory
from lab.server.run import Runner, listen, url_of
from lab.server.service import HostFactory, OnRecord, Service, TokenizerFactory
from lab.server.settings import ServerSettings


class LocalServer:
    """``with LocalServer(settings) as server:`` serves on ``server.url`` until the block ends.

    It listens on 127.0.0.1 on a free port, whatever the settings say. Two at once do not know of each other.
    When the block ends, requests that still run end as ``drain``. ``engine`` is ``thread`` or ``process``,
    or a function that starts one; ``implementation`` is the HTTP protocol of uvicorn. ``on_record`` is called
    in the server's thread with every record.
    """

    def __init__(
        self,
        settings: ServerSettings | None = None,
        engine: Literal["thread", "process"] | HostFactory = "thread",
        *,
        on_record: OnRecord | None = None,
        load_tokenizer: TokenizerFactory = load_tokenizer,
        implementation: Implementation = "httptools",
    ) -> None:
        self.settings = replace(settings or ServerSettings(), host="127.0.0.1", port=0, grace=0.0)
        self.service = Service(self.settings, _factory(engine, self.settings), load_tokenizer, on_record)
        self.url = ""
        self._implementation = implementation
        self._thread = threading.Thread(target=self._main, name="lab-server", daemon=True)
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: Runner | None = None

    def start(self) -> LocalServer:
        """Starts serving; returns when the first request may come.

        :raises LabError: when the model cannot be loaded or the engine does not come up.
        """
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def stop(self) -> None:
        """Ends what still runs and returns when all of it is gone. A second call does nothing."""
        if self._thread.is_alive() and self._loop is not None and self._runner is not None:
            self._loop.call_soon_threadsafe(self._runner.stop)
        if self._thread.ident is not None:
            self._thread.join()

    def snapshot(self) -> dict[str, Any]:
        """The live states of all requests, as ``/debug/requests`` shows them. From any thread."""
        return self._call(self.service.owner.snapshot)

    def _call(self, function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Runs a function in the server's loop and waits for its answer."""

        async def call() -> dict[str, Any]:
            return function()

        if self._loop is None:
            raise RuntimeError("the server has not started")
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def _main(self) -> None:
        try:
            loop_factory = uvicorn.Config(self.service.app, log_config=None).get_loop_factory()
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        listener = listen(self.settings.host, self.settings.port)
        self.url = url_of(listener)
        self._runner = Runner(self.service, listener, self._implementation)
        await self._runner.run(on_ready=self._ready.set)

    def __enter__(self) -> LocalServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"LocalServer({self.url or 'not started'})"


def _factory(engine: Literal["thread", "process"] | HostFactory, settings: ServerSettings) -> HostFactory:
    if engine == "thread":
        return thread_factory(settings)
    if engine == "process":
        return process_factory(settings)
    return engine
