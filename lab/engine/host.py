"""Where an engine runs: in a thread of this process, or in a child process. Same loop, same messages.

`start_thread` and `start_process` return once the model is loaded. `on_events` is called with one list per step, from
a thread that is not the caller's; it must hand the list over and return, since the engine waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lab.engine.config import EngineConfig, EngineInfo
from lab.engine.messages import Command, Event

OnEvents = Callable[[list[Event]], None]
OnExit = Callable[[int | None], None]  # exit code; negative for a signal, None for a thread


class EngineHost(Protocol):
    """A running engine, seen by the owner of the requests."""

    @property
    def info(self) -> EngineInfo:
        """What was loaded."""
        ...

    @property
    def alive(self) -> bool:
        """False once the loop has ended, whatever the cause."""
        ...

    def post(self, commands: Sequence[Command]) -> None:
        """Put commands into the mailbox; any thread, never blocks. Ignored once the engine is gone."""
        ...

    def close(self, timeout: float = 5.0) -> None:
        """Stop the loop: every attempt still live gets its `Aborted`. Returns when thread or process is gone.

        A child that is not gone after `timeout` seconds is killed. A second call does nothing.
        """
        ...


def _ignore(code: int | None) -> None:
    """The `on_exit` of a caller who does not care."""


def start_thread(config: EngineConfig, on_events: OnEvents, on_exit: OnExit = _ignore) -> EngineHost:
    """Run an engine in a thread of this process: for notebooks and tests.

    `on_exit` is called once, with None, when the loop or `on_events` raised: then nothing more will come.

    :raises ModelError: when the model cannot be loaded.
    """
    from lab.engine.thread_host import ThreadHost  # torch is imported only here

    return ThreadHost(config, on_events, on_exit)


def start_process(config: EngineConfig, on_events: OnEvents, on_exit: OnExit) -> EngineHost:
    """Run an engine in a child process, as `lab serve` does.

    `on_exit` is called once, with the exit code, when the child is gone without `close` having been called.

    :raises HostError: when the child does not come up, or its clock is not ours.
    """
    from lab.engine.process_host import ProcessHost

    return ProcessHost(config, on_events, on_exit)
