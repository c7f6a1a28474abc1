"""Random histories of a real engine loop and its requests: whatever happens, every request ends once and for all.

Nothing here runs by itself. The engine makes a step when the history says so, the clock stands still until it
is moved, and a reader takes or does not take; so an example that fails fails again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.core.endings import ENDINGS, Reason
from lab.core.limits import LimitSettings
from lab.engine.detokenize import Vocabulary
from lab.engine.loop import EngineLoop
from lab.engine.mailbox import LocalMailbox
from lab.engine.messages import Command

LIMITS = LimitSettings(
    queue_timeout=3, ttft_timeout=4, idle_timeout=5, overall_deadline=9, stall_timeout=4, flush_timeout=1000
)
CAPACITY = 3

index = st.integers(0, 5)
operation = st.one_of(
    st.tuples(st.just("new"), st.booleans(), st.integers(1, 9)),
    st.tuples(st.just("step"), st.integers(1, 4)),
    st.tuples(st.just("advance"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["block", "unblock", "leave", "cancel"]), index),
    st.tuples(st.sampled_from(["drain", "cut"])),
)


class History:
    """One run: a bench whose engine is a real loop that steps when told."""

    def __init__(self, b: Any, runner: Any, settle: Any) -> None:
        self._b = b
        self._settle = settle
        self._mailbox = LocalMailbox()
        vocabulary = Vocabulary([b"", *(bytes([byte]) for byte in range(1, 128))], eos_id=0)
        self.loop = EngineLoop(runner, vocabulary, self._mailbox, clock=b.clock)
        b.host.post = self._post
        self.calls: list[tuple[Any, int]] = []

    def _post(self, commands: Sequence[Command]) -> None:
        self._b.host.commands.extend(commands)
        self._mailbox.put(commands)

    async def do(self, name: str, *arguments: Any) -> None:
        b = self._b
        if name == "new":
            stream, tokens = arguments
            body = {"model": "lab-1m", "prompt": "abc", "stream": stream, "max_tokens": tokens}
            self.calls.append((b.call("/v1/completions", body | {"temperature": 0}), tokens))
        elif name == "step":
            for _ in range(arguments[0]):
                b.owner.on_batch(self.loop.step())
                await self._settle()
        elif name == "advance":
            b.pass_time(arguments[0])
        elif name in ("drain", "cut"):
            getattr(b.owner, name)()
        elif arguments[0] < len(self.calls):
            self._touch(name, self.calls[arguments[0]][0])
        await self._settle()
        for request in b.owner._open.values():
            assert request.whole or len(request.queue) <= CAPACITY

    def _touch(self, name: str, call: Any) -> None:
        if name == "leave":
            call.disconnect()
        elif name == "cancel":
            for request in self._b.owner._open.values():
                if request.connection is call.connection:
                    self._b.owner.finish(request, Reason.CLIENT_CANCEL)
        else:
            getattr(call, name)()

    async def finish(self) -> None:
        """All readers read on, and the engine runs until it has nothing to do."""
        for call, _ in self.calls:
            call.unblock()
        await self._settle()
        for _ in range(100):
            await self.do("step", 1)
            if self.loop.idle and all(call.task.done() for call, _ in self.calls):
                return
        raise AssertionError(f"not over: {self.loop.snapshot()}, {self._b.owner.snapshot()}")

    def check(self) -> None:
        records = {record.request_id: record for record in self._b.records}
        assert len(records) == len(self._b.records) == len(self.calls)
        assert self.loop.snapshot()["slots"] == {}
        for call, tokens in self.calls:
            if call.messages:
                self._check_answer(call, tokens, records[call.headers["x-request-id"]])
        for record in records.values():
            if not ENDINGS[record.reason].refusal:
                parts = record.sent_tokens + record.dropped_tokens + record.trimmed_tokens
                assert record.generated_tokens == parts

    def _check_answer(self, call: Any, tokens: int, record: Any) -> None:
        """What the client read agrees with the record."""
        if call.gone:
            return
        if call.status != 200:
            assert call.error_code == record.reason.value
        elif record.stream and record.reason is Reason.LENGTH:
            assert call.text == "x" * tokens
            assert call.finish_reasons == ["length"]
        elif record.stream:
            assert call.text == "x" * record.sent_tokens
            assert call.error_code == record.reason.value
            assert call.finish_reasons == []
        assert call.complete


@given(st.lists(operation, max_size=30), st.sampled_from([None, 1]))
@settings(max_examples=150)
def test_every_history_ends_well(
    bench_class: Any, letter_runner: Any, settle: Any, history: Any, max_running: int | None
) -> None:
    async def main() -> None:
        b = bench_class(
            slots=2,
            capacity=CAPACITY,
            limits=LIMITS,
            ping_interval=0,
            max_queued=2,
            max_running=max_running,
        )
        await b.service.start()
        run = History(b, letter_runner(2, 64), settle)
        for operation in [("new", True, 5), *history]:
            await run.do(*operation)
        await run.finish()
        run.check()
        await b.service.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
