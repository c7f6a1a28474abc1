"""The engine loop: the one owner of all sequences. One call of `step` does, in this order:

1. read the mailbox: aborts, credits, new submits (an abort of a waiting sequence costs no prefill);
2. admit waiting sequences to free slots, first come first served;
3. prefill at most `prefill_chunk` prompt tokens, so that running sequences are not held up long;
4. decode one token for every running sequence that has a credit; one without is parked;
5. choose all tokens, with one synchronisation of the device;
6. read the mailbox again: a token computed for a sequence that was aborted meanwhile is discarded;
7. publish: one `Delta` at most for each sequence, and its slot is free again when the model is done with it.

No event about a sequence follows its ending. A fault in one sequence ends that sequence; a fault of the whole step
ends those that were in it; the loop lives on. Nothing here knows how messages travel or who waits for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lab.core.clock import Clock, MonotonicClock
from lab.engine.detokenize import Vocabulary
from lab.engine.errors import SubmitError
from lab.engine.mailbox import Mailbox
from lab.engine.messages import (
    Abort,
    Aborted,
    Credit,
    Delta,
    Done,
    Event,
    Failed,
    Parked,
    Ping,
    Pong,
    Resumed,
    Started,
    Stepped,
    StepStats,
    Stop,
    Submit,
)
from lab.engine.roster import Roster
from lab.engine.runner import Runner
from lab.engine.sampler import choose
from lab.engine.sequence import Sequence, Stage, check_submit

_log = logging.getLogger(__name__)


class EngineLoop:
    """Sequences in dense slots: continuous batching, chunked prefill, credits."""

    def __init__(
        self,
        runner: Runner,
        vocabulary: Vocabulary,
        mailbox: Mailbox,
        prefill_chunk: int = 256,
        clock: Clock | None = None,
    ) -> None:
        self._runner = runner
        self._vocabulary = vocabulary
        self._mailbox = mailbox
        self._prefill_chunk = prefill_chunk
        self._clock = clock or MonotonicClock()
        self._roster = Roster(runner.slots)
        self._in_step: list[Sequence] = []  # sequences for which the running step computes a token
        self._events: list[Event] = []
        self._steps = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            Submit: self._on_submit,
            Abort: self._on_abort,
            Credit: self._on_credit,
            Ping: self._on_ping,
            Stop: self._on_stop,
        }
        self.stopped = False

    @property
    def idle(self) -> bool:
        """True when a step would do nothing until a command arrives."""
        return self._roster.idle

    def step(self) -> list[Event]:
        """Do one step and return what happened, `Stepped` last; an empty list when nothing did."""
        began = self._clock.now()
        self._events = []
        self._read_mailbox()
        self._admit()
        prefill_tokens, batch, tokens = self._compute()
        self._read_mailbox()
        self._publish(tokens)
        events = self._events
        if events or batch or prefill_tokens:
            self._steps += 1
            events.append(Stepped(self._stats(batch, prefill_tokens, began)))
        return events

    def run(self, publish: Callable[[list[Event]], None]) -> None:
        """Step until `Stop`; each step's events go to `publish`. Blocks on the mailbox while there is nothing to do."""
        while not self.stopped:
            if self.idle:
                self._mailbox.wait()
            events = self.step()
            if events:
                publish(events)

    def snapshot(self) -> dict[str, Any]:
        """Who is where (see `Roster.snapshot`), and how many steps were done."""
        return self._roster.snapshot() | {"steps": self._steps, "stopped": self.stopped}

    # Commands

    def _read_mailbox(self) -> None:
        for command in self._mailbox.take():
            self._handlers[type(command)](command)

    def _on_submit(self, submit: Submit) -> None:
        if self.stopped:
            self._events.append(Failed(submit.attempt_id, "the engine has stopped", self._clock.now()))
            return
        try:
            if submit.attempt_id in self._roster.live:
                raise SubmitError(f"attempt {submit.attempt_id} is already here; the first submit goes on")
            check_submit(submit, self._runner.max_len, len(self._vocabulary))
            sequence = Sequence(submit, self._vocabulary)
        except (SubmitError, TypeError, ValueError) as error:
            self._events.append(Failed(submit.attempt_id, str(error), self._clock.now(), invalid=True))
            return
        self._roster.add(sequence)

    def _on_abort(self, abort: Abort) -> None:
        sequence = self._roster.live.get(abort.attempt_id)
        if sequence is not None:
            self._abort(sequence)

    def _abort(self, sequence: Sequence) -> None:
        discarded = sum(row is sequence for row in self._in_step)
        self._roster.release(sequence)
        self._events.append(Aborted(sequence.attempt_id, sequence.generated, discarded, self._clock.now()))

    def _on_credit(self, credit: Credit) -> None:
        sequence = self._roster.live.get(credit.attempt_id)
        if sequence is None:
            return
        try:
            rearmed = sequence.credits.give_back(credit.n)
        except ValueError as error:
            self._fail(sequence, error)
            return
        if rearmed:
            self._roster.resume(sequence)
            self._events.append(Resumed(sequence.attempt_id, self._clock.now()))

    def _on_ping(self, ping: Ping) -> None:
        self._events.append(Pong(ping.t, self._clock.now()))

    def _on_stop(self, _: Stop) -> None:
        self.stopped = True
        for sequence in list(self._roster.live.values()):
            self._abort(sequence)

    # The model

    def _admit(self) -> None:
        while (sequence := self._roster.admit()) is not None:
            self._events.append(Started(sequence.attempt_id, self._clock.now()))

    def _compute(self) -> tuple[int, int, list[int]]:
        """Run the model: prompt tokens prefilled, rows decoded, and the tokens chosen for `_in_step`."""
        prefill_tokens, first, logits = self._prefill()
        rows = self._rows_with_credit()
        self._in_step = rows + first
        decoded = self._decode(rows)
        if decoded is None:
            self._in_step = first
        else:
            logits.insert(0, decoded)
        if not self._in_step:
            return prefill_tokens, len(rows), []
        try:
            tokens = self._choose(logits[0] if len(logits) == 1 else torch.cat(logits))
        except Exception as error:
            self._fail_all(self._in_step, error)
            self._in_step, tokens = [], []
        return prefill_tokens, len(rows), tokens

    def _prefill(self) -> tuple[int, list[Sequence], list[Tensor]]:
        """The next chunks: prompt tokens computed, the sequences whose prompt is complete, their logits [1, V]."""
        budget, complete, logits = self._prefill_chunk, [], []
        while budget and self._roster.prefilling:
            sequence = self._roster.prefilling[0]
            chunk = sequence.prompt[sequence.computed : sequence.computed + budget]
            try:
                after = self._runner.prefill(chunk, sequence.slot, sequence.computed)
            except Exception as error:
                self._fail(sequence, error)
                continue
            budget -= len(chunk)
            sequence.computed += len(chunk)
            if sequence.computed == len(sequence.prompt):
                self._roster.prefilling.popleft()
                sequence.credits.reserve()  # the first credit is always there
                complete.append(sequence)
                logits.append(after[None])
        return self._prefill_chunk - budget, complete, logits

    def _rows_with_credit(self) -> list[Sequence]:
        """The rows of this step; a sequence without credit leaves the batch and keeps its slot."""
        decoding = self._roster.decoding
        rows = [sequence for sequence in decoding if sequence.credits.reserve()]
        if len(rows) < len(decoding):
            for sequence in decoding.copy():
                if sequence.credits.parked:
                    self._roster.park(sequence)
                    self._events.append(Parked(sequence.attempt_id, self._clock.now()))
        return rows

    def _decode(self, rows: list[Sequence]) -> Tensor | None:
        if not rows:
            return None
        try:
            return self._runner.decode(
                [row.token for row in rows], [row.position for row in rows], [row.slot for row in rows]
            )
        except Exception as error:
            self._fail_all(rows, error)
            return None

    def _choose(self, logits: Tensor) -> list[int]:
        """The token of each sequence in `_in_step`, from logits [B, V]."""
        rows = self._in_step
        special = [b for b, row in enumerate(rows) if row.special]
        if not special:
            return logits.argmax(-1).tolist()
        barred = [b for b in special if rows[b].bars_eos]
        with (
            torch.inference_mode()
        ):  # not around the whole step: entering it costs as much as ten tokens' bookkeeping
            if barred:
                logits[barred, self._vocabulary.eos_id] = -torch.inf
            return choose(logits, [(row.params, row.draws) for row in rows]).tolist()

    # Results

    def _publish(self, tokens: list[int]) -> None:
        at = self._clock.now()
        rows, self._in_step = self._in_step, []
        for sequence, token in zip(rows, tokens, strict=True):
            if sequence.stage is not Stage.ENDED:
                try:
                    self._publish_token(sequence, token, at)
                except Exception as error:
                    self._fail(sequence, error)

    def _publish_token(self, sequence: Sequence, token: int, at: float) -> None:
        text, count, _ = sequence.accept(token, self._vocabulary.eos_id)
        if count or text:
            index = sequence.text.published - count
            self._events.append(Delta(sequence.attempt_id, text, count, index, at))
        else:
            sequence.credits.cancel()
        if sequence.reason is not None:
            self._roster.release(sequence)
            self._events.append(
                Done(sequence.attempt_id, sequence.reason, sequence.generated, sequence.trimmed, at)
            )
        elif sequence.stage is Stage.PREFILL:
            self._roster.run(sequence)

    def _fail_all(self, sequences: list[Sequence], error: Exception) -> None:
        for sequence in sequences:
            self._fail(sequence, error)

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        _log.error("attempt %s failed", sequence.attempt_id, exc_info=error)
        self._roster.release(sequence)
        self._events.append(
            Failed(sequence.attempt_id, f"{type(error).__name__}: {error}", self._clock.now())
        )

    def _stats(self, batch: int, prefill_tokens: int, began: float) -> StepStats:
        roster = self._roster
        return StepStats(
            step=self._steps,
            batch=batch,
            prefill_tokens=prefill_tokens,
            seconds=self._clock.now() - began,
            running=roster.running,
            waiting=len(roster.waiting),
            parked=len(roster.parked),
            slots_free=len(roster.free),
        )
