"""Whatever a body holds, the answer is a request or a 4xx: nothing else is ever raised."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lab.server import params
from lab.server.api import ApiContext, GenerationRequest, parse_request
from lab.server.errors import ApiError


class Tokenizer:
    vocab_size = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def chat(self, messages: Sequence[Any]) -> list[int]:
        return [token for message in messages for token in self.encode(message["content"])]

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])


CONTEXT = ApiContext(("lab-1m",), Tokenizer(), max_len=32)
KINDS = st.sampled_from(["chat", "completion"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**320, "user", "text", "lab-1m"])
    | st.floats()
    | st.text(max_size=40)
    | st.text(st.characters(categories=["Cs", "Cc", "So"]), max_size=4)
)
KEYS = st.sampled_from(["role", "content", "type", "text", "include_usage", "name"]) | st.text(max_size=8)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
NAMES = {
    kind: sorted({*params.SUPPORTED[kind], *params.AT_DEFAULT[kind], *params.IGNORED, "x"})
    for kind in ("chat", "completion")
}
VALID = {
    "chat": {"model": "lab-1m", "messages": [{"role": "user", "content": "hi"}]},
    "completion": {"model": "lab-1m", "prompt": "hi"},
}


def outcome(kind: Any, body: bytes, headers: dict[str, str] | None = None) -> GenerationRequest | ApiError:
    """What parse_request gave; its promises about either are checked here."""
    try:
        asked = parse_request(kind, body, headers or {}, CONTEXT)
    except ApiError as error:
        check_error(error)
        return error
    check_request(asked)
    return asked


def check_error(error: ApiError) -> None:
    assert 400 <= error.status < 500
    fields = json.loads(error.body())["error"]
    assert fields["message"]
    assert len(error.message) < 500
    assert all(isinstance(fields[name], str | None) for name in ("param", "code"))
    assert error.reason is not None


def check_request(asked: GenerationRequest) -> None:
    assert asked.prompt
    assert all(0 <= token < 256 for token in asked.prompt)
    sampling = asked.params
    assert 1 <= sampling.max_tokens <= CONTEXT.max_len - len(asked.prompt)
    assert 0 <= sampling.min_tokens <= sampling.max_tokens
    assert 0 <= sampling.temperature <= 2
    assert 0 < sampling.top_p <= 1
    assert 0 <= sampling.top_k <= 256
    assert sampling.seed is None or -(2**63) <= sampling.seed < 2**63
    assert len(sampling.stop) <= 4
    assert all(stop.encode() for stop in sampling.stop)


@given(kind=KINDS, value=JSON)
@settings(max_examples=100)
def test_any_json_value_as_the_whole_body(kind: Any, value: Any) -> None:
    outcome(kind, json.dumps(value).encode())


@pytest.mark.parametrize("kind", ["chat", "completion"])
@given(data=st.data())
@settings(max_examples=250)
def test_any_json_value_for_any_field(kind: Any, data: st.DataObject) -> None:
    fields = dict(VALID[kind])
    for name in data.draw(st.lists(st.sampled_from(NAMES[kind]), min_size=1, max_size=3)):
        fields[name] = data.draw(JSON)
    outcome(kind, json.dumps(fields).encode())


@given(
    messages=st.lists(
        st.dictionaries(st.sampled_from(["role", "content", "name", "x"]), JSON, max_size=4), max_size=3
    )
)
@settings(max_examples=100)
def test_any_messages(messages: Any) -> None:
    outcome("chat", json.dumps({"model": "lab-1m", "messages": messages}).encode())


@given(kind=KINDS, body=st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes(kind: Any, body: bytes) -> None:
    outcome(kind, body)


@given(kind=KINDS, cut=st.integers(0, 80), patch=st.binary(max_size=6))
@settings(max_examples=150)
@example(kind="completion", cut=0, patch=b"")
def test_a_valid_body_with_other_bytes_in_it(kind: Any, cut: int, patch: bytes) -> None:
    body = json.dumps({**VALID[kind], "temperature": 1.0, "stop": ["x"]}).encode()
    outcome(kind, body[:cut] + patch + body[cut + len(patch) :])


@given(
    headers=st.dictionaries(
        st.sampled_from(["x-app-id", "x-request-id", "x-request-deadline-ms"]),
        st.text(max_size=80) | st.integers().map(str),
    )
)
@settings(max_examples=100)
def test_any_headers(headers: dict[str, str]) -> None:
    asked = outcome("chat", json.dumps(VALID["chat"]).encode(), headers)
    if isinstance(asked, GenerationRequest):
        assert asked.deadline_ms is None or asked.deadline_ms >= 1
        assert asked.app_id.isascii()
        assert 1 <= len(asked.app_id) <= 64
