"""What the serving loop and the engine loop say to each other: commands one way, events the other.

Every message is frozen and holds only ints, floats, strings and tuples, so that it crosses a process boundary
unchanged. Times are seconds of the monotonic clock, which both sides share (checked when an engine starts).

For each `Submit` the engine posts exactly one of `Done`, `Aborted` and `Failed`, and nothing about that attempt after
it. The tokens of an attempt add up: `generated == sum(Delta.tokens) + trimmed`, and for an aborted attempt
`generated == sum(Delta.tokens) + held`, where held tokens are those whose text was still being held back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

NaturalReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the tokens of one request are chosen, and when the model is done.

    `max_tokens` counts every generated token, the end-of-sequence token too. Before `min_tokens` tokens neither an
    end of sequence nor a stop string ends the text. Temperature 0 is greedy; `top_p` 1 and `top_k` 0 switch those
    filters off. With a `seed` the draws are the same in every run, whatever the neighbours in the batch.
    """

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Submit:
    """Start an attempt. `capacity` bounds the events sent and not yet returned by `Credit` (None: unbounded).

    At the bound the sequence is parked; it goes on once the outstanding events have sunk to `low`
    (None: `capacity - 1`). With `coalesce` the receiver merges what it cannot send yet, and the sequence never parks.
    """

    attempt_id: str
    prompt: tuple[int, ...]
    params: SamplingParams
    capacity: int | None = None
    low: int | None = None
    coalesce: bool = False


@dataclass(frozen=True, slots=True)
class Abort:
    """End an attempt now. An id that is unknown or already ended is ignored; ids match exactly."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class Credit:
    """`n` events of this attempt have left the request's queue. Ignored for an unknown or ended id."""

    attempt_id: str
    n: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Ask for a `Pong`; `t` is the sender's clock."""

    t: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Abort every sequence and end the loop."""


@dataclass(frozen=True, slots=True)
class Started:
    """The attempt has left the waiting line and holds a slot; its prefill runs in this step."""

    attempt_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of text, whole characters only, and the tokens that became part of the published text with it.

    `index` counts the tokens published in earlier deltas. A last delta may bring text with no token of its own (the
    tail that a stop string was waited for), and a token without text (a special one) comes with empty text.
    """

    attempt_id: str
    text: str
    tokens: int
    index: int
    at: float


@dataclass(frozen=True, slots=True)
class Done:
    """The model is done and the slot is free again. Text held back came in a `Delta` just before.

    `trimmed` counts generated tokens that are in no delta: the end of sequence, and those behind a stop string.
    """

    attempt_id: str
    reason: NaturalReason
    generated: int
    trimmed: int
    at: float


@dataclass(frozen=True, slots=True)
class Aborted:
    """The attempt ended by `Abort` or `Stop`. `discarded` counts a token that the running step still computed."""

    attempt_id: str
    generated: int
    discarded: int
    at: float


@dataclass(frozen=True, slots=True)
class Parked:
    """No credit is left: the sequence keeps its slot and its KV, and leaves the batch."""

    attempt_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """Enough credit came back: the sequence is in the batch again."""

    attempt_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt ended by a fault. `invalid` says that the submit itself was at fault and never ran.

    A submit with the id of a live attempt is refused in this way too; the one that is live goes on.
    """

    attempt_id: str
    message: str
    at: float
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class Pong:
    """Answer to a `Ping`: its `t`, and the engine's clock when it was read."""

    t: float
    at: float


@dataclass(frozen=True, slots=True)
class StepStats:
    """One step in numbers: `batch` decoded rows, `prefill_tokens` computed, then the state after publishing."""

    step: int
    batch: int
    prefill_tokens: int
    seconds: float
    running: int
    waiting: int
    parked: int
    slots_free: int


@dataclass(frozen=True, slots=True)
class Stepped:
    """The last event of every step that did anything."""

    stats: StepStats


Command: TypeAlias = Submit | Abort | Credit | Ping | Stop
Event: TypeAlias = Started | Delta | Done | Aborted | Parked | Resumed | Failed | Pong | Stepped
