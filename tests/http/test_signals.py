"""One module owns the signals; neither uvicorn nor sse-starlette hears of them."""

from __future__ import annotations

import asyncio
import os
import signal

import uvicorn
from sse_starlette.sse import AppStatus

from lab.http.signals import SIGNALS, Server, on_signals


def test_our_server_installs_no_handlers() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Server(uvicorn.Config("none:app", log_config=None)).capture_signals():
        assert [signal.getsignal(number) for number in SIGNALS] == before


def test_each_signal_is_one_call_and_reaches_nobody_else() -> None:
    calls: list[int] = []

    async def main() -> None:
        arrived = asyncio.Queue[None]()
        with on_signals(lambda: arrived.put_nowait(None)):
            for number in SIGNALS:
                os.kill(os.getpid(), number)
                await asyncio.wait_for(arrived.get(), 5)
                calls.append(number)
            assert arrived.empty()

    before = [signal.getsignal(number) for number in SIGNALS]
    asyncio.run(main())
    assert calls == list(SIGNALS)
    assert not AppStatus.should_exit
    assert [signal.getsignal(number) for number in SIGNALS] == before
