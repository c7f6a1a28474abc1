"""An engine in a child process, at the other end of two pipes. `on_events` is called from the thread that reads."""

from __future__ import annotations

import json
import logging
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import lab
from lab.engine.config import EngineConfig, EngineInfo
from lab.engine.errors import HostError
from lab.engine.host import OnEvents, OnExit
from lab.engine.messages import Command, Ping, Pong, Stop
from lab.engine.outbox import Outbox
from lab.engine.wire import FrameReader, frame, pack, unpack

_log = logging.getLogger(__name__)
START_TIMEOUT = 120.0  # seconds; importing torch from a cold disk is slow
_READ = 1 << 18


class ProcessHost:
    """See `EngineHost`. A fresh interpreter, not a fork and not `multiprocessing`: a child that imports only
    `lab.engine.child` needs no guard in the caller's script and leaves no helper process behind."""

    def __init__(self, config: EngineConfig, on_events: OnEvents, on_exit: OnExit) -> None:
        """:raises HostError: when the child does not come up, or its clock is not ours."""
        self._on_events = on_events
        self._on_exit = on_exit
        self._closing = False
        self._process = _spawn(config)
        if self._process.stdin is None or self._process.stdout is None:
            raise HostError("the engine process has no pipes")
        self._stdout = self._process.stdout
        self._outbox = Outbox(os.dup(self._process.stdin.fileno()))
        self._process.stdin.close()
        self._payloads = _payloads(self._stdout.fileno())
        try:
            self.info = self._greet()
            self._check_clock()
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._close_pipes()
            raise
        self._reader = threading.Thread(target=self._read, name="lab-engine-reader", daemon=True)
        self._reader.start()

    info: EngineInfo

    @property
    def alive(self) -> bool:
        """False once the child is gone."""
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def post(self, commands: Sequence[Command]) -> None:
        """See `EngineHost.post`."""
        if commands:
            self._outbox.send(frame(pack(commands)))

    def close(self, timeout: float = 5.0) -> None:
        """See `EngineHost.close`."""
        if self._closing:
            return
        self._closing = True
        self.post((Stop(),))
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout)
            if self._reader.is_alive():
                self._process.kill()
                self._reader.join()
        self._close_pipes()

    def _close_pipes(self) -> None:
        self._outbox.close()
        self._stdout.close()

    def _read(self) -> None:
        try:
            for payload in self._payloads:
                self._on_events(unpack(payload))
        except Exception:
            _log.exception("the events of the engine process cannot be taken in: it is ended")
            self._process.kill()
        code = self._process.wait()
        if not self._closing:
            self._on_exit(code)

    def _greet(self) -> EngineInfo:
        ready, _, _ = select.select([self._stdout], [], [], START_TIMEOUT)
        if not ready:
            raise HostError(f"the engine process was not ready within {START_TIMEOUT:.0f} s")
        first = next(self._payloads, None)
        if first is None:
            raise HostError(f"the engine process ended with code {self._process.wait()} before it was ready")
        greeting = pickle.loads(first)
        if not isinstance(greeting, EngineInfo):
            raise HostError(f"the engine process did not start: {greeting}")
        return greeting

    def _check_clock(self) -> None:
        """Both sides must read one monotonic clock: the child's answer lies between our question and now."""
        self.post((Ping(time.monotonic()),))
        for payload in self._payloads:
            for event in unpack(payload):
                if isinstance(event, Pong):
                    if not event.t <= event.at <= time.monotonic():
                        raise HostError("the engine process does not share this process's monotonic clock")
                    return
        raise HostError("the engine process ended before it answered")


def _spawn(config: EngineConfig) -> subprocess.Popen[bytes]:
    """A fresh interpreter that finds the same `lab`, in a session of its own: Ctrl-C is the parent's business."""
    package_root = str(Path(lab.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "lab.engine.child", json.dumps(asdict(config))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    )


def _payloads(fd: int) -> Iterator[bytes]:
    """What the child sends, until its end."""
    frames = FrameReader()
    while data := os.read(fd, _READ):
        yield from frames.feed(data)
