"""An engine in a thread of this process. `on_events` is called from that thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from lab.engine.config import EngineConfig, EngineInfo
from lab.engine.host import OnEvents, OnExit
from lab.engine.loop import EngineLoop
from lab.engine.mailbox import LocalMailbox
from lab.engine.messages import Command, Stop
from lab.engine.model_runner import load_engine

_log = logging.getLogger(__name__)


class ThreadHost:
    """See `EngineHost`."""

    def __init__(self, config: EngineConfig, on_events: OnEvents, on_exit: OnExit) -> None:
        """:raises ModelError: when the model cannot be loaded."""
        runner, vocabulary, self.info = load_engine(config)
        self._on_events = on_events
        self._on_exit = on_exit
        self._mailbox = LocalMailbox()
        self._loop = EngineLoop(runner, vocabulary, self._mailbox, config.prefill_chunk)
        self._thread = threading.Thread(target=self._run, name="lab-engine", daemon=True)
        self._thread.start()

    info: EngineInfo

    @property
    def alive(self) -> bool:
        """False once the loop has ended."""
        return self._thread.is_alive()

    def post(self, commands: Sequence[Command]) -> None:
        """See `EngineHost.post`."""
        self._mailbox.put(commands)

    def close(self, timeout: float = 5.0) -> None:
        """See `EngineHost.close`. A thread cannot be killed: it ends after its running step."""
        self._mailbox.put((Stop(),))
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._loop.run(self._on_events)
        except Exception:
            _log.exception("the engine loop has ended")
            self._on_exit(None)
