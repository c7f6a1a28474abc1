"""The engine process: `python -m lab.engine.child SETTINGS`, started by `ProcessHost` and by nothing else.

Commands come in on standard input, events go out on what was standard output; anything printed goes to standard
error. The end of the input is the end of the process, so a parent that dies takes its engine with it. Interrupts and
termination signals are left to the parent, which first lets its streams end.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import select
import signal
import sys

from lab.core.errors import LabError
from lab.engine.config import EngineConfig
from lab.engine.messages import Command, Event, Stop
from lab.engine.wire import FrameReader, frame, pack, unpack

_READ = 1 << 16


class PipeMailbox:
    """A `Mailbox` at the reading end of a pipe. The end of the stream reads as `Stop`."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._frames = FrameReader()
        self._poller = select.poll()
        self._poller.register(fd, select.POLLIN)

    def take(self) -> list[Command]:
        """See `Mailbox.take`."""
        commands: list[Command] = []
        more = True
        while more:
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                break
            if not data:
                return [*commands, Stop()]
            for payload in self._frames.feed(data):
                commands.extend(unpack(payload))
            more = len(data) == _READ
        return commands

    def wait(self) -> None:
        """See `Mailbox.wait`."""
        self._poller.poll()


def main() -> int:
    """Load, say what was loaded, run the loop until the end of the input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    out = os.dup(1)
    os.dup2(2, 1)

    def send(payload: bytes) -> None:
        data = memoryview(frame(payload))
        while data:
            data = data[os.write(out, data) :]

    def publish(events: list[Event]) -> None:
        send(pack(events))

    try:
        from lab.engine.loop import (
            EngineLoop,
        )  # torch is imported only now, with the signals already in place
        from lab.engine.model_runner import load_engine

        config = EngineConfig(**json.loads(sys.argv[1]))
        runner, vocabulary, info = load_engine(config)
        gc.freeze()  # a full collection over all that torch brings would hold up every stream for 0.2 s
        send(pickle.dumps(info))
        EngineLoop(runner, vocabulary, PipeMailbox(0), config.prefill_chunk).run(publish)
    except LabError as error:
        send(pickle.dumps(str(error)))
        return 1
    except BrokenPipeError:
        return 0  # the parent is gone
    return 0


if __name__ == "__main__":
    sys.exit(main())
