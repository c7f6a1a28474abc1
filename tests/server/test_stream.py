"""One stream, one whole answer: the happy paths, word by word."""
import pytest
from lab.core.endings import Reason

pytestmark = pytest.mark.anyio


async def test_a_stream_word_by_word(bench, settle):
    async with bench(capacity=4) as b:
        call = b.completion()
        await settle()
        assert call.status is None
        b.host.started()
        await settle()
        assert call.status is None
        b.host.delta("he")
        await settle()
        assert call.status == 200
        assert call.text == "he"
        b.host.delta("llo", " you")
        await settle()
        assert call.text == "hello you"
        b.host.done(4, trimmed=1)
        await settle()
        assert call.complete
        assert call.finish_reasons == ["stop"]
        assert call.events[-1] == "[DONE]"
    (record,) = b.records
    print(record)
    assert record.reason is Reason.STOP
