"""A real `lab serve` process for the length of a block, as a stranger would start it."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from lab.bench.streams import Endpoint, StreamFailed

CAPACITY = 16  # events queued for each request
MAX_LEN = 1024
_START_SECONDS = 60
_STOP_SECONDS = 15


@contextmanager
def served(model: str, device: str, slots: int) -> Iterator[Endpoint]:
    """A server on a free port, stopped at the end of the block.

    :raises StreamFailed: when it does not come up.
    """
    arguments = [
        "--port", "0", "--model", model, "--device", device, "--slots", str(slots), "--capacity", str(CAPACITY),
        "--max-len", str(MAX_LEN), "--max-queued", str(slots), "--grace", "0",
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as errors:  # a file is never full, as an unread pipe would be
        process = subprocess.Popen(
            [sys.executable, "-m", "lab", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield _endpoint_of(process, errors)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _endpoint_of(process: subprocess.Popen[str], errors: IO[str]) -> Endpoint:
    """The address that a server names once it takes requests."""
    watchdog = threading.Timer(_START_SECONDS, process.kill)
    watchdog.start()
    try:
        for line in process.stdout or ():
            if found := re.search(r"http://\S+", line):
                return Endpoint.of(found[0])
        process.wait()
    finally:
        watchdog.cancel()
    errors.seek(0)
    said = errors.read().strip().splitlines()
    raise StreamFailed(f"lab serve did not start: {said[-1] if said else 'it said nothing'}")
