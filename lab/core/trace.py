"""One request against one reader, tick by tick: the trace that the workbook grows from.

In each tick, in this order: an ending that is due, the reader takes up to ``drain[tick]`` events, the
model generates at most one token. The six policies differ only in what happens when the reader lags:

=========== =======================================================================================
park        at ``capacity`` waiting events the request is left out of the step (``paused``); at
            ``low`` it is armed again
coalesce    one slot: a new token is merged into the event that waits there. One event then carries
            many tokens, so the reader takes all of them at once. ``capacity`` is not read
fail        where park would pause for the first time, the request ends as ``slow_consumer``
unbounded   the queue has no bound. ``capacity`` is not read
drop        the model goes on, and a token that finds ``capacity`` events waiting is lost: bounded
            memory, the same work, and a text with holes
block       the engine's step waits until there is room, so nobody in the batch gets a token
=========== =======================================================================================

``low`` is read by ``park`` alone. Park without a capacity is the unbounded policy.

How a run ends, at the latest: all tokens sent -> ``stop`` in that tick; the deadline tick comes ->
``overall_deadline``; without a deadline, the first tick after the pattern -> ``slow_consumer``, because
this reader will never read again. With a deadline a pattern that is over reads 0 a tick until then.
When several endings fall in one tick, limits come before signals and signals come in their order; the
first wins and the others are late no-ops. A signal set for a tick after the end never arrives.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.core.endings import Reason
from lab.core.errors import TraceError
from lab.core.lifecycle import Lifecycle, State
from lab.core.send_queue import Credits, SendQueue
from lab.core.trace_settings import POLICIES, TraceSettings, settings_from_json

__all__ = [
    "POLICIES",
    "Neighbour",
    "Tick",
    "TraceRun",
    "TraceSettings",
    "figures",
    "run_trace",
]


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick, as it stands when the tick is over.

    drained, generated and lost are what this tick did; sent and queued are totals; ``state`` is that of the
    request. ``ending`` is set in the last tick alone; what is queued then was dropped.
    """

    tick: int
    drained: str
    generated: str
    lost: str
    sent: str
    queued: str
    paused: bool
    state: State
    ending: Reason | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A second request in the same batch, with as many tokens, whose reader takes each token at once.

    stalled  ticks in which it would have got a token, but the step waited for the slow reader
    last     the tick of its last token, in a run that goes on for as long as the neighbour needs
    tpot     mean ticks between its tokens; None for a single token
    """

    stalled: tuple[int, ...]
    last: int
    tpot: float | None


@dataclass(frozen=True, slots=True)
class TraceRun:
    """What happened. ``generated == sent + dropped`` as sets of tokens; dropped in the order of the text."""

    settings: TraceSettings
    ticks: tuple[Tick, ...]
    generated: str
    sent: str
    dropped: str
    paused: tuple[int, ...]
    reason: Reason
    late: tuple[Reason, ...]
    cleanups: int
    neighbour: Neighbour

    @property
    def end(self) -> int:
        """The tick of the ending."""
        return self.ticks[-1].tick

    @property
    def waste(self) -> float | None:
        """The share of the generated tokens that were not sent; None when none was generated."""
        return len(self.dropped) / len(self.generated) if self.generated else None

    @property
    def high_water(self) -> int:
        """The most tokens that ever waited."""
        return max(len(tick.queued) for tick in self.ticks)


def run_trace(settings: TraceSettings) -> TraceRun:
    """Runs the trace to its one ending."""
    run = _Run(settings)
    while run.lifecycle.state is not State.ENDED:
        run.step()
    return run.result()


class _Run:
    """A run in progress. Tokens are indices, so that a text may repeat a character.

    ``kept`` are the tokens that entered the queue; the first ``sent`` of them have left it.
    An event in the queue is the number of its tokens, which is also its size.
    """

    def __init__(self, settings: TraceSettings) -> None:
        capacity = None if settings.policy in ("unbounded", "coalesce") else settings.capacity
        self.settings = settings
        self.credits = Credits(capacity, settings.low if settings.policy == "park" else None)
        self.gated = settings.policy not in ("coalesce", "drop")  # takes a credit for each token
        self.queue: SendQueue[int] = SendQueue(1 if settings.policy == "coalesce" else capacity)
        self.lifecycle = Lifecycle(on_finish=self._release)
        self.lifecycle.advance(State.PREFILL)
        self.lifecycle.advance(State.DECODE)
        self.ticks: list[Tick] = []
        self.kept: list[int] = []
        self.lost: list[int] = []
        self.sent = 0
        self.late: list[Reason] = []
        self.cleanups = 0

    @property
    def made(self) -> int:
        return len(self.kept) + len(self.lost)

    def step(self) -> None:
        """One tick: ending, drain, generate."""
        number, sent, lost, made = len(self.ticks), self.sent, len(self.lost), self.made
        paused = False
        self._end(number)
        if self.lifecycle.state is not State.ENDED:
            self._drain(number)
        if self.lifecycle.state in (State.DECODE, State.PARKED):
            paused = not self._generate()
        self.ticks.append(
            Tick(
                tick=number,
                drained=self._text(self.kept[sent : self.sent]),
                generated=self._text(range(made, self.made)),
                lost=self._text(self.lost[lost:]),
                sent=self._text(self.kept[: self.sent]),
                queued=self._text(self.kept[self.sent :]),
                paused=paused,
                state=self.lifecycle.state,
                ending=self.lifecycle.reason,
            )
        )

    def _end(self, number: int) -> None:
        """Everything that wants to end the request in this tick; the first one does."""
        due = [self.settings.limit] if number == self.settings.last_tick else []
        due += [reason for tick, reason in self.settings.signals if tick == number]
        self.late += [reason for reason in due if not self.lifecycle.try_finish(reason)]

    def _drain(self, number: int) -> None:
        drain = self.settings.drain
        taken = 0
        for _ in range(drain[number] if number < len(drain) else 0):
            tokens = self.queue.take()
            if tokens is None:
                break
            self.sent += tokens
            taken += 1
        if self.gated and self.credits.give_back(taken) and self.lifecycle.state is State.PARKED:
            self.lifecycle.advance(State.DECODE)
        if self.lifecycle.state is State.FLUSHING and not len(self.queue):
            self.lifecycle.flushed()

    def _generate(self) -> bool:
        """Makes one token, or says False because the reader lags too far for it."""
        if self.gated and not self.credits.reserve():
            return self._refused()
        if self.settings.policy == "coalesce":
            tokens = (self.queue.take() or 0) + 1
            self.queue.put(tokens, tokens)
            self.kept.append(self.made)
        elif self.queue.capacity is not None and len(self.queue) >= self.queue.capacity:
            self.lost.append(self.made)  # only drop comes here with a full queue
        else:
            self.queue.put(1, 1)
            self.kept.append(self.made)
        if self.made == len(self.settings.tokens):
            self.lifecycle.model_done(Reason.STOP)
        return True

    def _refused(self) -> bool:
        """The queue is at its high mark: what a gated policy does instead of making a token."""
        if self.settings.policy == "fail":
            self.lifecycle.try_finish(Reason.SLOW_CONSUMER)
            return True
        if self.settings.policy == "park" and self.lifecycle.state is State.DECODE:
            self.lifecycle.advance(State.PARKED)
        return False

    def _release(self, reason: Reason) -> None:
        self.cleanups += 1
        self.queue.drop_all()

    def _text(self, indices: Iterable[int]) -> str:
        return "".join(self.settings.tokens[index] for index in indices)

    def result(self) -> TraceRun:
        """The run, once it has ended."""
        reason = self.lifecycle.reason
        if reason is None:
            raise TraceError("the run has not ended")
        paused = tuple(tick.tick for tick in self.ticks if tick.paused)
        return TraceRun(
            settings=self.settings,
            ticks=tuple(self.ticks),
            generated=self.settings.tokens[: self.made],
            sent=self._text(self.kept[: self.sent]),
            dropped=self._text(sorted(self.lost + self.kept[self.sent :])),
            paused=paused,
            reason=reason,
            late=tuple(self.late),
            cleanups=self.cleanups,
            neighbour=_neighbour(
                len(self.settings.tokens), paused if self.settings.policy == "block" else ()
            ),
        )


def _neighbour(tokens: int, waits: Sequence[int]) -> Neighbour:
    """The fast neighbour of a run whose step waited in the ticks ``waits``."""
    times = [tick for tick in range(tokens + len(waits)) if tick not in waits][:tokens]
    stalled = tuple(tick for tick in waits if tick < times[-1])
    tpot = (times[-1] - times[0]) / (tokens - 1) if tokens > 1 else None
    return Neighbour(stalled, times[-1], tpot)


def figures(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """A recipe for evidence: each case, settings as JSON holds them, with the figures of its run."""
    return {name: _figures(run_trace(settings_from_json(case))) for name, case in cases.items()}


def _figures(run: TraceRun) -> dict[str, Any]:
    return {
        "generated": run.generated,
        "sent": run.sent,
        "dropped": run.dropped,
        "paused": list(run.paused),
        "ending": run.reason.value,
        "end": run.end,
        "late": [reason.value for reason in run.late],
        "cleanups": run.cleanups,
        "high_water": run.high_water,
        "neighbour_tpot": run.neighbour.tpot,
    }
