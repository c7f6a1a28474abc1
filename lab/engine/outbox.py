"""Writing frames into a pipe from any thread, without ever blocking the caller."""

from __future__ import annotations

import os
import select
import threading


class Outbox:
    """The writing end of a pipe. What the pipe cannot take now is written later by a thread made for it.

    A reader that is gone is no error here: whoever reads from that peer sees its end.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._lock = threading.Lock()
        self._backlog = bytearray()
        self._broken = False
        self._writer: threading.Thread | None = None

    def send(self, frame: bytes) -> None:
        """Write a frame whole and in order, now or soon."""
        with self._lock:
            if self._broken:
                return
            written = 0 if self._backlog else self._write(frame)
            self._backlog += frame[written:]
            if self._backlog and self._writer is None:
                self._writer = threading.Thread(target=self._drain, name="lab-engine-outbox", daemon=True)
                self._writer.start()

    def close(self) -> None:
        """Give up the pipe; a backlog is dropped. The peer then reads its end."""
        with self._lock:
            self._broken = True
            self._backlog.clear()
            writer = self._writer
        if writer is not None:
            writer.join()
        os.close(self._fd)

    def _write(self, data: bytes) -> int:
        """Write what fits; the lock is held."""
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            self._broken = True
            self._backlog.clear()
            return len(data)

    def _drain(self) -> None:
        poller = select.poll()
        poller.register(self._fd, select.POLLOUT)
        while True:
            poller.poll(100)  # looks up in between, since a close may empty the backlog
            with self._lock:
                del self._backlog[: self._write(bytes(self._backlog[:65536]))]
                if self._broken or not self._backlog:
                    self._writer = None
                    return
