"""Usage in streams: faults of other servers, replayed against this one."""

from __future__ import annotations

from typing import Any

import pytest

from lab.core.endings import Reason

pytestmark = pytest.mark.anyio

OPTIONS = [None, {}, {"include_usage": False}, {"include_usage": True}]
ENDINGS = ["stop", "length", Reason.CLIENT_CANCEL, Reason.BACKEND_ERROR, Reason.OVERALL_DEADLINE]


# vLLM, litellm: usage was missing, or there although stream_options was {}, or lost when a stream was aborted.
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("chat", [True, False])
async def test_S67_usage_by_stream_options_and_ending(
    bench: Any, settle: Any, options: Any, ending: Any, chat: bool
) -> None:
    async with bench() as b:
        body: dict[str, Any] = {"model": "lab-1m", "stream": True}
        body |= {"messages": [{"role": "user", "content": "hello"}]} if chat else {"prompt": "hello"}
        if options is not None:
            body["stream_options"] = options
        call = b.call("/v1/chat/completions" if chat else "/v1/completions", body)
        await settle()
        b.host.started()
        b.host.delta("a", "b")
        await settle()
        natural = ending in ("stop", "length")
        if natural:
            b.host.done(3, ending, trimmed=1)
        else:
            b.owner.finish(b.the_request(), ending)
        await settle()
        asked = options == {"include_usage": True}
        usages = [e["usage"] for e in call.events if isinstance(e, dict) and e.get("usage")]
        if asked and natural:
            assert usages == [{"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}]
            assert call.events[-2]["choices"] == []
        else:
            assert usages == []
        if not asked:
            assert not any("usage" in e for e in call.events if isinstance(e, dict))
        assert call.events[-1] == "[DONE]"
        assert call.finish_reasons == ([ending] if natural else [])
        assert call.error_code == (None if natural else ending.value)
    (record,) = b.records
    assert record.completion_tokens == (2 if natural else None)
    assert record.usage_source == ("engine" if natural else "missing")
    assert record.prompt_tokens == 5  # known in any case
    assert record.generated_tokens == (3 if natural else 2)


@pytest.mark.parametrize("reason", ["stop", "length"])
async def test_S67_a_whole_answer_always_has_usage(bench: Any, settle: Any, reason: Any) -> None:
    async with bench() as b:
        call = b.completion(stream=False)
        await settle()
        b.host.started()
        b.host.delta("a")
        b.host.done(1, reason)
        await settle()
        assert call.json["usage"] == {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    assert b.records[0].truncated is (reason == "length")
