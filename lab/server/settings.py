"""The settings of a server: one frozen object, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lab.core.errors import SettingsError
from lab.core.limits import LimitSettings
from lab.core.send_queue import Credits

Policy = Literal["park", "coalesce", "fail"]
POLICIES: tuple[Policy, ...] = ("park", "coalesce", "fail")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What ``lab serve`` and ``LocalServer`` can be told. Times in seconds, sizes in bytes unless named otherwise.

    *Admission*: at most ``max_running`` requests are with the engine (None: as many as it has slots);
    beyond them ``max_queued`` may wait, and ``max_waiting_prompt_tokens`` prompt tokens may wait for their
    first token. A body has at most ``max_body_bytes`` and ``body_timeout`` seconds to come. *Send queue* of one request: ``capacity`` events, re-armed at ``low`` (None: capacity - 1),
    and ``max_queued_bytes``. *Socket*: ``socket_send_buffer`` and ``write_high_water``.

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

    commit: Literal["first", "early"] = "first"
    socket_send_buffer: int | None = 1 << 13
    write_high_water: int | None = 1 << 11
    ping_interval: float = 15.0
    grace: float = 20.0

    def __post_init__(self) -> None:
        """:raises SettingsError: naming what is wrong."""
        Credits(self.capacity, self.low)  # checks 0 <= low < capacity
        for name in ("slots", "max_len", "threads", "max_queued_bytes", "max_body_bytes", "retry_after"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        for name in ("max_queued", "max_waiting_prompt_tokens", "ping_interval", "grace"):
            self._require(getattr(self, name) >= 0, name, "at least 0")
        for name in ("max_running", "socket_send_buffer"):
            value = getattr(self, name)
            self._require(value is None or value >= 1, name, "at least 1")
        self._require(
            self.write_high_water is None or self.write_high_water >= 0, "write_high_water", "at least 0"
        )
        self._require(self.body_timeout > 0, "body_timeout", "more than 0")
        self._require(0 <= self.port <= 65535, "port", "between 0 and 65535")
        self._require(self.policy in POLICIES, "policy", f"one of {', '.join(POLICIES)}")
        self._require(self.commit in ("first", "early"), "commit", "first or early")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise SettingsError(f"{name} must be {rule}, not {getattr(self, name)!r}")
