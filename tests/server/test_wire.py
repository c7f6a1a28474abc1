"""The shapes on the wire, member by member."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.endings import Reason
from lab.core.sse import SSEParser, encode_event
from lab.core.tokens import Usage
from lab.server.wire import Wire

USAGE = Usage(prompt_tokens=3, completion_tokens=5)
IDENTITY = {"id": "id-1", "created": 7, "model": "lab-1m", "system_fingerprint": "fp-1"}


def wire(kind="chat", include_usage=False):
    return Wire(kind, "id-1", 7, "lab-1m", "fp-1", include_usage)


def test_chat_chunks():
    w = wire()
    chunks = [json.loads(data) for data in (w.first(), w.delta("hé"), w.finish("stop"))]
    deltas = [{"role": "assistant", "content": "", "refusal": None}, {"content": "hé"}, {}]
    for chunk, delta, reason in zip(chunks, deltas, [None, None, "stop"], strict=True):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        assert chunk == {**IDENTITY, "object": "chat.completion.chunk", "choices": [choice]}


def test_completion_chunks():
    w = wire("completion")
    assert w.first() is None
    for data, text, reason in ((w.delta("x"), "x", None), (w.finish("length"), "", "length")):
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        assert json.loads(data) == {**IDENTITY, "object": "text_completion", "choices": [choice]}


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_usage_is_null_on_every_chunk_but_the_extra_last_one(kind):
    w = wire(kind, include_usage=True)
    for data in filter(None, (w.first(), w.delta("x"), w.finish("stop"))):
        assert json.loads(data)["usage"] is None
    last = json.loads(w.usage(USAGE))
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert {name: last[name] for name in IDENTITY} == IDENTITY
    assert "usage" not in json.loads(wire(kind).delta("x"))


def test_whole_answers():
    chat = json.loads(wire().whole("hé", "stop", USAGE))
    message = {"role": "assistant", "content": "hé", "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    assert chat == {**IDENTITY, "object": "chat.completion", "choices": [choice], "usage": USAGE.to_openai()}
    completion = json.loads(wire("completion").whole("hé", "length", USAGE))
    choice = {"index": 0, "text": "hé", "logprobs": None, "finish_reason": "length"}
    assert completion["choices"] == [choice]
    assert completion["object"] == "text_completion"


def test_an_error_event_has_the_reason_as_its_code():
    error = json.loads(wire().error(Reason.DRAIN, "the server is shutting down"))
    assert error == {
        "error": {
            "message": "the server is shutting down",
            "type": "server_error",
            "param": None,
            "code": "drain",
        }
    }


@given(st.text(), st.sampled_from(["chat", "completion"]))
def test_any_text_is_one_event_and_comes_back(text, kind):
    (event,) = SSEParser().feed(encode_event(wire(kind).delta(text)))
    choice = json.loads(event.data)["choices"][0]
    assert (choice["delta"]["content"] if kind == "chat" else choice["text"]) == text
