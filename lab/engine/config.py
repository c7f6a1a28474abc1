"""The settings of an engine, and what it says about itself once it runs."""

from __future__ import annotations

from dataclasses import dataclass

from lab.engine.errors import ConfigError

_POSITIVE = ("slots", "max_len", "prefill_chunk", "threads")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What to load and how many sequences of what length to hold.

    `slots` sequences run or are parked at once; a further submit waits. A sequence holds at most `max_len` tokens,
    prompt included. One step prefills at most `prefill_chunk` tokens, so that running sequences are not held up long.

    :raises ConfigError: when a size is below 1.
    """

    model: str = "lab-1m"
    device: str = "auto"
    dtype: str = "float32"
    slots: int = 32
    max_len: int = 1024
    prefill_chunk: int = 256
    threads: int = 1

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """A running engine: model name, fingerprint of weights and incarnation, sizes, device."""

    model: str
    fingerprint: str
    slots: int
    max_len: int
    vocab_size: int
    device: str
