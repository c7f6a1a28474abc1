"""When a stream carries a usage chunk: stream options against endings, the whole table."""

from __future__ import annotations

from typing import Any

import pytest

from lab.core.endings import Reason

pytestmark = pytest.mark.anyio

# stream_options -> whether usage was asked for; "absent" stands for a body without the field
OPTIONS: list[tuple[Any, bool]] = [
    ("absent", False),
    (None, False),
    ({}, False),
    ({"include_usage": None}, False),
    ({"include_usage": False}, False),
    ({"include_usage": True}, True),
]


def natural(reason: str) -> Any:
    def end(b: Any, call: Any) -> None:
        b.host.done(3, reason=reason, trimmed=1)

    return end


def owner_ends(reason: Reason) -> Any:
    def end(b: Any, call: Any) -> None:
        b.owner.finish(b.the_request(), reason)

    return end


ENDS = [
    ("stop", natural("stop")),
    ("length", natural("length")),
    ("backend_error", lambda b, call: b.host.failed()),
    ("client_cancel", owner_ends(Reason.CLIENT_CANCEL)),
    ("idle_timeout", owner_ends(Reason.IDLE_TIMEOUT)),
    ("overall_deadline", owner_ends(Reason.OVERALL_DEADLINE)),
    ("drain", owner_ends(Reason.DRAIN)),
    ("worker_lost", owner_ends(Reason.WORKER_LOST)),
]


@pytest.mark.parametrize(("options", "wanted"), OPTIONS, ids=[str(options) for options, _ in OPTIONS])
@pytest.mark.parametrize(("code", "end"), ENDS, ids=[code for code, _ in ENDS])
async def test_S67_usage_comes_once_at_the_end_if_asked_for_and_never_with_an_error(
    bench: Any, settle: Any, options: Any, wanted: bool, code: str, end: Any
) -> None:
    extra = {} if options == "absent" else {"stream_options": options}
    async with bench() as b:
        call = b.completion(prompt="hello", **extra)
        await settle()
        b.host.started()
        b.host.delta("a", "b")
        await settle()
        end(b, call)
        await settle()
        is_natural = code in ("stop", "length")
        if not is_natural and not call.complete:
            b.host.aborted(2)
            await settle()
        *chunks, last = call.events
        assert last == "[DONE]"
        used = [chunk["usage"] for chunk in chunks if chunk.get("usage") is not None]
        if wanted and is_natural:
            assert used == [{"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}]
            assert chunks[-1]["choices"] == []
            assert chunks[-1]["usage"] == used[0]
        else:
            assert used == []
            assert all(chunk.get("choices") or "error" in chunk for chunk in chunks)
        assert call.finish_reasons == ([code] if is_natural else [])
        assert call.error_code == (None if is_natural else code)
        # whether the field is there at all tells a client if it may wait for it
        assert all(("usage" in chunk) == wanted for chunk in chunks if "error" not in chunk)


@pytest.mark.parametrize("reason", ["stop", "length"])
async def test_S67_an_answer_in_one_piece_always_has_its_usage(bench: Any, settle: Any, reason: str) -> None:
    async with bench() as b:
        call = b.completion(stream=False, prompt="hello")
        await settle()
        b.host.started()
        b.host.delta("a", "b")
        b.host.done(3, reason=reason, trimmed=1)
        await settle()
        assert call.json["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        assert call.json["choices"][0]["finish_reason"] == reason
