"""The one module that listens to signals, and the uvicorn server that does not.

uvicorn installs its own handlers, and sse-starlette replaces one of them when it is imported: it would end
every stream the moment SIGTERM arrives. A drain has to come first. So our server installs no handlers at
all, and what a signal means is decided by whoever calls ``on_signals``.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals alone, in any thread."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Installs nothing."""
        yield


@contextmanager
def on_signals(callback: Callable[[], None]) -> Generator[None, None, None]:
    """While open, SIGTERM and SIGINT call ``callback`` in the running loop, once for each signal.

    Only for the main thread of a process: a notebook or a test keeps its own handlers.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        loop.add_signal_handler(number, callback)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
