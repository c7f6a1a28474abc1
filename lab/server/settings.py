"""The settings of a server: one frozen object, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from lab.core.errors import SettingsError
from lab.core.limits import LimitSettings
from lab.core.send_queue import Credits
from lab.server.params import APP_ID, APP_ID_RULE

Policy = Literal["park", "coalesce", "fail"]
POLICIES: tuple[Policy, ...] = ("park", "coalesce", "fail")
MOST_SLOTS = 4096
MOST_THREADS = 1024
MOST_POSITIONS = 1 << 20  # of one sequence
MOST_BYTES = (1 << 31) - 1  # what the kernel takes for a buffer


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What ``lab serve`` and ``LocalServer`` can be told. Times in seconds, sizes in bytes unless named otherwise.

    *Admission*: at most ``max_running`` requests are with the engine (None: as many as it has slots);
    beyond them ``max_queued`` may wait, and ``max_waiting_prompt_tokens`` prompt tokens may wait for their
    first token. A body has at most ``max_body_bytes`` and ``body_timeout`` seconds to come. *Send queue* of one request: ``capacity`` events, re-armed at ``low`` (None: capacity - 1),
    and ``max_queued_bytes``. *Socket*: ``socket_send_buffer`` and ``write_high_water``.

    ``apps`` are the application ids (``X-App-Id``) that the metrics name; others are counted as ``other``.
    ``commit`` "first" starts a response with its first event, so that 503 and 504 are still possible;
    "early" sends the headers at admission. ``ping_interval`` 0 sends no pings. ``grace`` is how long running
    requests may go on after SIGTERM.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    model: str = "lab-1m"
    device: str = "auto"
    slots: int = 32
    max_len: int = 1024
    threads: int = 1

    capacity: int = 16
    low: int | None = None
    policy: Policy = "park"
    max_queued_bytes: int = 1 << 18

    limits: LimitSettings = field(default_factory=LimitSettings)
    max_running: int | None = None
    max_queued: int = 64
    max_waiting_prompt_tokens: int = 1 << 15
    max_body_bytes: int = 1 << 18
    body_timeout: float = 10.0
    retry_after: int = 1

    apps: tuple[str, ...] = ()

    commit: Literal["first", "early"] = "first"
    socket_send_buffer: int | None = 1 << 13
    write_high_water: int | None = 1 << 11
    ping_interval: float = 15.0
    grace: float = 20.0

    def __post_init__(self) -> None:
        """:raises SettingsError: naming what is wrong."""
        Credits(self.capacity, self.low)  # checks 0 <= low < capacity
        self._bound(1, MOST_SLOTS, "slots")
        self._bound(1, MOST_POSITIONS, "max_len")
        self._bound(1, MOST_THREADS, "threads")
        self._bound(1, MOST_BYTES, "socket_send_buffer", "max_queued_bytes", "max_body_bytes")
        self._bound(0, MOST_BYTES, "write_high_water")
        self._bound(1, math.inf, "retry_after", "max_running")
        self._bound(0, math.inf, "max_queued", "max_waiting_prompt_tokens")
        for name in ("ping_interval", "grace"):
            self._require(0 <= getattr(self, name) < math.inf, name, "at least 0, and finite")
        self._require(0 < self.body_timeout < math.inf, "body_timeout", "more than 0, and finite")
        self._bound(0, 65535, "port")
        self._require(self.policy in POLICIES, "policy", f"one of {', '.join(POLICIES)}")
        self._require(all(map(APP_ID.fullmatch, self.apps)), "apps", f"ids, each {APP_ID_RULE}")
        self._require(self.commit in ("first", "early"), "commit", "first or early")

    def _bound(self, least: int, most: float, *names: str) -> None:
        """Each of these is a whole number within the bounds, or None."""
        rule = f"at least {least}" if most == math.inf else f"between {least} and {most}"
        for name in names:
            value = getattr(self, name)
            self._require(value is None or least <= value <= most, name, rule)

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise SettingsError(f"{name} must be {rule}, not {getattr(self, name)!r}")
