"""The way commands reach an engine loop. The loop looks in between steps, and blocks there only when it is idle."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from typing import Protocol

from lab.engine.messages import Command


class Mailbox(Protocol):
    """The reading end, used by the engine loop's thread alone."""

    def take(self) -> list[Command]:
        """Everything that has arrived, in order; an empty list when there is nothing. Never blocks."""
        ...

    def wait(self) -> None:
        """Block until `take` has something to give."""
        ...


class LocalMailbox:
    """A mailbox inside one process. Any thread may put; a put never blocks."""

    __slots__ = ("_arrived", "_queue")

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Command, ...]] = SimpleQueue()
        self._arrived: list[Command] = []

    def put(self, commands: Sequence[Command]) -> None:
        """Add commands; those of one call stay together and in order."""
        if commands:
            self._queue.put(tuple(commands))

    def take(self) -> list[Command]:
        """See `Mailbox.take`."""
        commands, self._arrived = self._arrived, []
        while not self._queue.empty():
            commands.extend(self._queue.get())
        return commands

    def wait(self) -> None:
        """See `Mailbox.wait`."""
        if not self._arrived:
            self._arrived.extend(self._queue.get())
