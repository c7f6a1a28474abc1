"""The shapes that the official client expects, judged by its own models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import model_validator

from lab.core.endings import ENDINGS, AfterFirstByte, Reason
from lab.core.sse import SSEParser, encode_event
from lab.core.tokens import Usage
from lab.server.wire import DONE, Wire

USAGE = Usage(7, 5, cached_tokens=3)
TEXTS = [
    "",
    " word",
    'say "no"\\',
    "a\nb\r\nc",
    "\0\x1f\x7f",
    "é中🙂",
    "\u2028\u2029",
    "</script>",
    "[DONE]",
    "data: x\n\n",
]


class CompletionChunk(Completion):
    """The client has one model for a completion and its chunks, and builds chunks without validating them.

    Validated, it refuses the ``finish_reason: null`` that the API sends with every chunk but the last.
    """

    @model_validator(mode="before")
    @classmethod
    def _ended(cls, data: dict[str, Any]) -> dict[str, Any]:
        for choice in data["choices"]:
            if choice["finish_reason"] is None:
                choice["finish_reason"] = "stop"
        return data


STREAM_MODELS = {"chat": ChatCompletionChunk, "completion": CompletionChunk}
WHOLE_MODELS = {"chat": ChatCompletion, "completion": Completion}


def wire(kind: Any, include_usage: bool = False) -> Wire:
    return Wire(kind, "id-1", 1_700_000_000, "lab-1m", "fp-1", include_usage)


def strict(model: Any, data: str | bytes) -> Any:
    """The client's model of it, which knows every field that is there."""
    parsed = model.model_validate_json(data)
    assert not parsed.model_extra
    for choice in parsed.choices:
        assert not choice.model_extra
    assert (parsed.id, parsed.model, parsed.created) == ("id-1", "lab-1m", 1_700_000_000)
    assert parsed.system_fingerprint == "fp-1"
    return parsed


def text_of(kind: str, chunk: Any) -> str:
    (choice,) = chunk.choices
    return str(choice.delta.content if kind == "chat" else choice.text)


@pytest.mark.parametrize("kind", ["chat", "completion"])
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_delta_is_a_chunk_with_this_text(kind: Any, text: str) -> None:
    chunk = strict(STREAM_MODELS[kind], wire(kind).delta(text))
    assert text_of(kind, chunk) == text
    assert chunk.object == ("chat.completion.chunk" if kind == "chat" else "text_completion")
    assert chunk.choices[0].index == 0


@given(text=st.text(), kind=st.sampled_from(["chat", "completion"]))
def test_any_text_survives_json_and_framing(text: str, kind: Any) -> None:
    (event,) = SSEParser().feed(encode_event(wire(kind).delta(text)))
    assert text_of(kind, STREAM_MODELS[kind].model_validate_json(event.data)) == text


def test_only_a_chat_begins_with_its_role() -> None:
    first = wire("chat").first()
    assert first is not None
    delta = strict(ChatCompletionChunk, first).choices[0].delta
    assert (delta.role, delta.content) == ("assistant", "")
    assert wire("completion").first() is None


@pytest.mark.parametrize("kind", ["chat", "completion"])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_the_finish_chunk_has_the_reason_and_no_text(kind: Any, reason: str) -> None:
    chunk = strict(STREAM_MODELS[kind], wire(kind).finish(reason))
    assert chunk.choices[0].finish_reason == reason
    assert text_of(kind, chunk) in ("", "None")
    before = json.loads(wire(kind).delta("x"))["choices"][0]
    assert before["finish_reason"] is None


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_the_usage_chunk_has_no_choices(kind: Any) -> None:
    chunk = strict(STREAM_MODELS[kind], wire(kind, include_usage=True).usage(USAGE))
    assert chunk.choices == []
    assert (chunk.usage.prompt_tokens, chunk.usage.completion_tokens, chunk.usage.total_tokens) == (7, 5, 12)
    assert chunk.usage.prompt_tokens_details.cached_tokens == 3


@pytest.mark.parametrize("kind", ["chat", "completion"])
@pytest.mark.parametrize("include_usage", [False, True])
def test_every_chunk_says_usage_null_if_one_will_follow_and_else_nothing(
    kind: Any, include_usage: bool
) -> None:
    made = wire(kind, include_usage)
    for data in (made.delta("x"), made.finish("stop"), made.first() or made.delta("")):
        chunk = json.loads(data)
        assert ("usage" in chunk) == include_usage
        assert chunk.get("usage") is None


@pytest.mark.parametrize("kind", ["chat", "completion"])
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_whole_answer(kind: Any, text: str) -> None:
    answer = strict(WHOLE_MODELS[kind], wire(kind).whole(text, "length", USAGE))
    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert (choice.message.content if kind == "chat" else choice.text) == text
    if kind == "chat":
        assert choice.message.role == "assistant"
    assert answer.object == ("chat.completion" if kind == "chat" else "text_completion")
    assert answer.usage.total_tokens == 12


@pytest.mark.parametrize(
    "reason", [row.reason for row in ENDINGS.values() if row.after is AfterFirstByte.ERROR]
)
def test_an_error_in_the_stream_names_its_reason(reason: Reason) -> None:
    error = json.loads(wire("chat").error(reason, 'it "broke"'))["error"]
    assert error == {"message": 'it "broke"', "type": "server_error", "param": None, "code": reason.value}


def test_the_end_is_not_json() -> None:
    assert DONE == "[DONE]"
