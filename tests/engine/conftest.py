"""A model that needs no weights, and an engine loop on it that a test drives by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.core.clock import VirtualClock
from lab.engine.detokenize import Vocabulary
from lab.engine.loop import EngineLoop
from lab.engine.mailbox import LocalMailbox
from lab.engine.messages import Aborted, Command, Delta, Done, Event, Failed, SamplingParams, Stepped, Submit

EOS = 0
VOCABULARY = Vocabulary([b"", *(bytes([byte]) for byte in range(97, 97 + 26))], eos_id=EOS)
ENDINGS = (Done, Aborted, Failed)


class FakeRunner:
    """After token t in the prompt's last place comes t + 1, and so on: a .. z, then the end of sequence.

    `prefilled` lists (slot, start, tokens) of every chunk; `broken_slots` raise in prefill; `broken` raises in decode;
    `during` is called in the middle of every prefill and decode, as if another thread acted then.
    """

    def __init__(self, slots: int = 4, max_len: int = 64) -> None:
        self.slots, self.max_len = slots, max_len
        self.prefilled: list[tuple[int, int, tuple[int, ...]]] = []
        self.batches: list[list[int]] = []
        self.broken_slots: set[int] = set()
        self.broken = False
        self.filled = [0] * slots
        self.during = lambda: None

    def prefill(self, tokens: Sequence[int], slot: int, start: int) -> Tensor:
        if slot in self.broken_slots:
            raise RuntimeError(f"slot {slot} is broken")
        assert start in (0, self.filled[slot]), "a chunk continues where the last one ended"
        self.filled[slot] = start + len(tokens)
        self.prefilled.append((slot, start, tuple(tokens)))
        self.during()
        return self._logits(tokens[-1:])[0]

    def decode(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int]) -> Tensor:
        assert list(slots) == sorted(set(slots)), "rows come in the order of their slots"
        assert max(positions) < self.max_len
        for slot, position in zip(slots, positions, strict=True):
            assert position == self.filled[slot], "each token goes right behind the last one"
            self.filled[slot] += 1
        self.batches.append(list(slots))
        self.during()
        if self.broken:
            raise RuntimeError("the device is gone")
        return self._logits(tokens)

    def _logits(self, tokens: Sequence[int]) -> Tensor:
        logits = torch.zeros(len(tokens), len(VOCABULARY))
        for row, token in enumerate(tokens):
            logits[row, (token + 1) % len(VOCABULARY)] = 9.0
        return logits


class Driver:
    """An engine loop on a fake model, with every event it ever gave."""

    def __init__(self, slots: int = 4, max_len: int = 64, prefill_chunk: int = 8) -> None:
        self.runner = FakeRunner(slots, max_len)
        self.mailbox = LocalMailbox()
        self.loop = EngineLoop(self.runner, VOCABULARY, self.mailbox, prefill_chunk, VirtualClock())
        self.events: list[Event] = []

    def step(self, *commands: Command) -> list[Event]:
        """Post, do one step, check that no slot is lost or held twice."""
        self.mailbox.put(commands)
        events = self.loop.step()
        self.events.extend(events)
        check_slots(self.loop.snapshot(), self.runner.slots)
        return events

    def run(self, *commands: Command, limit: int = 500) -> list[Event]:
        """Step until the loop is idle."""
        self.mailbox.put(commands)
        start = len(self.events)
        for _ in range(limit):
            if not self.step() and self.loop.idle:
                return self.events[start:]
        raise AssertionError(f"not idle after {limit} steps: {self.loop.snapshot()}")

    def of(self, attempt_id: str) -> list[Event]:
        """All events of one attempt."""
        return [e for e in self.events if getattr(e, "attempt_id", None) == attempt_id]

    def text(self, attempt_id: str) -> str:
        return "".join(event.text for event in self.of(attempt_id) if isinstance(event, Delta))

    def ending(self, attempt_id: str) -> Event | None:
        """The one ending of an attempt, which must be its last event."""
        events = self.of(attempt_id)
        endings = [event for event in events if isinstance(event, ENDINGS)]
        assert len(endings) <= 1
        assert not endings or events[-1] is endings[0], "nothing follows an ending"
        return endings[0] if endings else None

    def stats(self) -> list[Any]:
        return [event.stats for event in self.events if isinstance(event, Stepped)]


def check_slots(snapshot: dict[str, Any], slots: int) -> None:
    """Every slot is free or held by exactly one live attempt."""
    held = list(snapshot["slots"].values())
    assert sorted(held + snapshot["free"]) == list(range(slots))
    placed = snapshot["prefilling"] + snapshot["decoding"] + snapshot["parked"]
    assert sorted(placed) == sorted(snapshot["slots"])


def submit(
    attempt_id: str,
    prompt: str = "a",
    max_tokens: int = 5,
    capacity: int | None = None,
    low: int | None = None,
    coalesce: bool = False,
    **params: Any,
) -> Submit:
    """A greedy submit whose prompt is spelt in letters."""
    tokens = tuple(ord(letter) - 96 for letter in prompt)
    settings = SamplingParams(max_tokens=max_tokens, **{"temperature": 0.0} | params)
    return Submit(attempt_id, tokens, settings, capacity, low, coalesce)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", name="new_driver")
def _new_driver() -> type[Driver]:
    return Driver


@pytest.fixture(scope="session", name="submit")
def _submit() -> Any:
    return submit
