"""Bodies in, requests or named refusals out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.endings import ENDINGS, Reason
from lab.core.errors import LabError
from lab.server import params
from lab.server.api import ApiContext, GenerationRequest, parse_request
from lab.server.errors import ApiError

MODEL = "lab-1m"
MAX_LEN = 64


class Tokenizer:
    """A token per character, and control tokens that a message must not hold."""

    vocab_size = 128

    def encode(self, text: str) -> list[int]:
        return [1, *(ord(letter) % 127 + 1 for letter in text)]

    def chat(self, messages: Any) -> list[int]:
        text = "".join(message["role"][0] + message["content"] for message in messages)
        if "<|eos|>" in text:
            raise LabError("a message must not contain <|eos|>")
        return self.encode(text)


CONTEXT = ApiContext((MODEL,), Tokenizer(), MAX_LEN)
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"model": MODEL, "prompt": "hi"}
BASE = {"chat": CHAT, "completion": COMPLETION}


def parse(body: Any, kind: Any = "chat", **headers: str) -> GenerationRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_request(
        kind, raw, {name.replace("_", "-"): value for name, value in headers.items()}, CONTEXT
    )


def refusal(body: Any, kind: Any = "chat", **headers: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(body, kind, **headers)
    error = caught.value
    assert json.loads(error.body())["error"].keys() == {"message", "type", "param", "code"}
    assert error.reason is not None
    assert ENDINGS[error.reason].refusal
    return error


def test_a_chat_with_nothing_but_the_required_fields():
    asked = parse(CHAT)
    assert asked.prompt == tuple(Tokenizer().encode("uhi"))
    assert asked.params.max_tokens == MAX_LEN - len(asked.prompt)  # the rest of the context
    assert (asked.params.temperature, asked.params.top_p, asked.params.top_k) == (1.0, 1.0, 0)
    assert not asked.stream
    assert not asked.include_usage
    assert asked.app_id == "anonymous"
    assert asked.client_request_id is asked.deadline_ms is asked.params.seed is None


def test_a_completion_without_a_number_gets_sixteen_tokens_or_what_there_is_room_for():
    assert parse(COMPLETION, "completion").params.max_tokens == 16
    assert parse(COMPLETION | {"prompt": "x" * 60}, "completion").params.max_tokens == 3


def test_everything_a_client_can_say():
    asked = parse(
        CHAT
        | {
            "stream": True,
            "stream_options": {"include_usage": True, "include_obfuscation": False},
            "max_completion_tokens": 9,
            "min_tokens": 2,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 7,
            "seed": -3,
            "stop": ["a", "b"],
            "ignore_eos": True,
            "n": 1,
            "tools": [],
            "user": "u",
            "metadata": {"deep": [1]},
        },
        x_app_id="shop",
        x_request_id="mine-1",
        x_request_deadline_ms="1500",
    )
    p = asked.params
    assert (p.max_tokens, p.min_tokens, p.temperature, p.top_p, p.top_k) == (9, 2, 0.5, 0.9, 7)
    assert (p.seed, p.stop, p.ignore_eos) == (-3, ("a", "b"), True)
    assert asked.stream
    assert asked.include_usage
    assert asked.ignored == ("user", "metadata")
    assert (asked.app_id, asked.client_request_id, asked.deadline_ms) == ("shop", "mine-1", 1500)


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_null_is_not_given(kind):
    names = [*params.SUPPORTED[kind], *params.AT_DEFAULT[kind]]
    nulls = {name: None for name in names if name not in params.REQUIRED[kind]}
    assert parse(BASE[kind] | nulls, kind) == parse(BASE[kind], kind)


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_fields_at_their_default_change_nothing_and_any_other_value_is_refused_by_name(kind):
    for name, default in params.AT_DEFAULT[kind].items():
        assert parse(BASE[kind] | {name: default}, kind) == parse(BASE[kind], kind)
        for other in (2, "x", True, {"type": "json_object"}, [1]):
            if other != default or isinstance(other, bool) != isinstance(default, bool):
                error = refusal(BASE[kind] | {name: other}, kind)
                assert (error.status, error.param, error.code) == (400, name, "unsupported_parameter")


def test_the_three_lists_do_not_overlap():
    for kind in params.SUPPORTED:
        lists = [set(params.SUPPORTED[kind]), set(params.AT_DEFAULT[kind]), set(params.IGNORED)]
        assert sum(map(len, lists)) == len(set.union(*lists))
        assert set(params.REQUIRED[kind]) <= lists[0]


BAD_VALUES = [
    ("model", 1, "invalid_type"),
    ("model", "\ud800", "invalid_value"),
    ("stream", 1, "invalid_type"),
    ("stream", "true", "invalid_type"),
    ("max_tokens", True, "invalid_type"),
    ("max_tokens", 5.0, "invalid_type"),
    ("max_tokens", "5", "invalid_type"),
    ("max_tokens", 0, "invalid_value"),
    ("max_tokens", -1, "invalid_value"),
    ("max_tokens", 10**30, "invalid_value"),
    ("min_tokens", -1, "invalid_value"),
    ("min_tokens", 63, "invalid_value"),  # more than max_tokens
    ("temperature", -0.1, "invalid_value"),
    ("temperature", 2.1, "invalid_value"),
    ("temperature", 10**200, "invalid_value"),
    ("temperature", False, "invalid_type"),
    ("temperature", "hot", "invalid_type"),
    ("top_p", 0, "invalid_value"),
    ("top_p", 1.01, "invalid_value"),
    ("top_k", -2, "invalid_value"),
    ("top_k", 1.5, "invalid_type"),
    ("seed", 2**63, "invalid_value"),
    ("seed", "1", "invalid_type"),
    ("stop", 1, "invalid_type"),
    ("stop", "", "invalid_value"),
    ("stop", list("abcde"), "invalid_value"),
    ("stop", "x" * 1025, "invalid_value"),
    ("ignore_eos", 0, "invalid_type"),
    ("stream_options", [], "invalid_type"),
    ("best_of_all", 1, "unknown_parameter"),
]


@pytest.mark.parametrize(("name", "value", "code"), BAD_VALUES)
def test_a_bad_value_is_refused_by_the_name_of_its_field(name, value, code):
    for kind, base in BASE.items():
        error = refusal(base | {name: value}, kind)
        assert (error.status, error.param, error.code) == (400, name, code)
        assert error.reason is Reason.INVALID
        assert error.message.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"not json", None),
        (b"[]", None),
        (b"null", None),
        (b'"text"', None),
        (b"\xff\xfe{\x00}\x00", None),  # UTF-16: the json module would take it
        (b'\xef\xbb\xbf{"model": "lab-1m"}', None),
        (b"[" * 100_000, None),
        (b'{"a":' * 100_000, None),
        (b'{"temperature": NaN}', "temperature"),
        (b'{"temperature": -Infinity}', "temperature"),
        (b'{"temperature": 1e999}', "temperature"),
        (b'{"max_tokens": ' + b"9" * 5000 + b"}", "max_tokens"),
        (b'{"metadata": {"deep": [1, NaN]}}', "metadata.deep[1]"),
        (b'{"model": "a", "model": "b"}', "model"),
        (b'{"messages": [{"role": "user", "role": "system"}]}', "role"),
    ],
)
def test_what_is_no_json_object_is_refused_and_a_bad_number_named(body, param):
    error = refusal(body)
    assert (error.status, error.param) == (400, param)


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ("hi", "messages"),
        ([], "messages"),
        ([1], "messages[0]"),
        ([{}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "robot", "content": "x"}], "messages[0].role"),
        ([{"role": "tool", "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": 1}], "messages[0].content"),
        ([{"role": "user", "content": "\udfff"}], "messages[0].content"),
        ([{"role": "user", "content": "x", "mood": 1}], "messages[0].mood"),
        ([{"role": "user", "content": "x", "tool_calls": [{}]}], "messages[0].tool_calls"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": "<|eos|>"}], "messages"),
    ],
)
def test_a_bad_message_is_refused_by_its_path(messages, param):
    assert refusal(CHAT | {"messages": messages}).param == param


def test_a_message_in_parts_and_one_that_comes_back_from_an_answer():
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    assert parse(CHAT | {"messages": [{"role": "user", "content": parts}]}).prompt == parse(CHAT).prompt
    echoed = {"role": "assistant", "content": "x", "refusal": None, "tool_calls": None, "annotations": []}
    assert parse(CHAT | {"messages": [*CHAT["messages"], echoed]}).prompt == tuple(
        Tokenizer().encode("uhiax")
    )
    developer = [{"role": "developer", "content": "x"}]
    assert parse(CHAT | {"messages": developer}).prompt == tuple(Tokenizer().encode("sx"))


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("hi", Tokenizer().encode("hi")),
        (["hi"], Tokenizer().encode("hi")),
        ([5, 6], [5, 6]),
        ([[5, 6]], [5, 6]),
    ],
)
def test_the_forms_of_a_prompt(prompt, tokens):
    assert list(parse(COMPLETION | {"prompt": prompt}, "completion").prompt) == tokens


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (1, "prompt"),
        ({}, "prompt"),
        ([], "prompt"),
        ([[]], "prompt"),
        (["a", "b"], "prompt"),
        ([True], "prompt[0]"),
        ([1, 128], "prompt[1]"),
        ([1, -1], "prompt[1]"),
        ([1, "a"], "prompt[1]"),
        ("\ud800", "prompt"),
    ],
)
def test_a_bad_prompt_is_refused_by_its_path(prompt, param):
    assert refusal(COMPLETION | {"prompt": prompt}, "completion").param == param


@pytest.mark.parametrize(("kind", "field"), [("chat", "messages"), ("completion", "prompt")])
def test_a_missing_field_and_an_unknown_model(kind, field):
    error = refusal({name: value for name, value in BASE[kind].items() if name != field}, kind)
    assert (error.status, error.param, error.code) == (400, field, "missing_required_parameter")
    error = refusal(BASE[kind] | {"model": "gpt-9"}, kind)
    assert (error.status, error.param, error.code) == (404, "model", "model_not_found")


def test_too_long_is_its_own_refusal():
    for error in (
        refusal(COMPLETION | {"prompt": "x" * MAX_LEN}, "completion"),
        refusal(CHAT | {"messages": [{"role": "user", "content": "x" * MAX_LEN}]}),
        refusal(COMPLETION | {"max_tokens": MAX_LEN}, "completion"),
        refusal(CHAT | {"max_completion_tokens": MAX_LEN}),
    ):
        assert (error.status, error.code, error.reason) == (400, "too_long", Reason.TOO_LONG)
    assert error.param == "max_completion_tokens"
    room = MAX_LEN - len(Tokenizer().encode("hi"))
    assert parse(COMPLETION | {"max_tokens": room}, "completion").params.max_tokens == room


def test_two_names_for_one_number_must_agree():
    assert parse(CHAT | {"max_tokens": 4, "max_completion_tokens": 4}).params.max_tokens == 4
    assert refusal(CHAT | {"max_tokens": 4, "max_completion_tokens": 5}).param == "max_completion_tokens"
    assert refusal(COMPLETION | {"max_completion_tokens": 5}, "completion").code == "unknown_parameter"


def test_temperatures_next_to_zero_are_greedy_and_top_k_has_two_ways_to_say_all():
    assert parse(CHAT | {"temperature": 1e-300}).params.temperature == 0
    assert parse(CHAT | {"temperature": 0.001}).params.temperature == 0.001
    assert parse(CHAT | {"top_k": -1}).params.top_k == 0
    assert parse(CHAT | {"top_k": 2**31 - 1}).params.top_k == Tokenizer.vocab_size


def test_stream_options_belong_to_a_stream():
    assert refusal(CHAT | {"stream_options": {"include_usage": True}}).param == "stream_options"
    streamed = CHAT | {"stream": True}
    for options in ({}, None, {"include_usage": False}, {"include_usage": None}):
        assert not parse(streamed | {"stream_options": options}).include_usage
    for option, code in (("include_usage", "invalid_type"), ("includeUsage", "unknown_parameter")):
        error = refusal(streamed | {"stream_options": {option: 1}})
        assert (error.param, error.code) == (f"stream_options.{option}", code)


@pytest.mark.parametrize("value", ["0", "-5", "1.5", "soon", "", "9" * 13, "١"])
def test_a_deadline_is_whole_milliseconds(value):
    assert refusal(CHAT, x_request_deadline_ms=value).param == "X-Request-Deadline-Ms"


def test_headers_are_labels_and_bounded():
    assert refusal(CHAT, x_app_id="a b").param == "X-App-Id"
    assert refusal(CHAT, x_app_id="x" * 65).param == "X-App-Id"
    assert parse(CHAT, x_app_id="").app_id == "anonymous"
    assert parse(CHAT, x_request_id="x" * 129).client_request_id is None
    assert parse(CHAT, x_request_id="a\tb").client_request_id is None


def test_a_message_quotes_little_and_only_whole_characters():
    error = refusal(CHAT | {"\ud800" + "x" * 10_000: 1})
    assert len(error.body()) < 500
    error.message.encode()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = sorted({*params.SUPPORTED["chat"], *params.AT_DEFAULT["chat"], "prompt", "echo", "user", "x"})


@given(
    st.sampled_from(["chat", "completion"]),
    st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=5),
    st.booleans(),
)
def test_any_body_is_a_request_or_a_4xx(kind, fields, on_a_good_base):
    body = json.dumps((BASE[kind] if on_a_good_base else {}) | fields).encode()
    asked, error = attempt(kind, body)
    assert (asked is None) != (error is None)
    if error is not None:
        assert 400 <= error.status < 500
        json.loads(error.body())
    if asked is not None:
        assert 1 <= asked.params.max_tokens <= MAX_LEN - len(asked.prompt)


def attempt(kind: Any, body: bytes) -> tuple[GenerationRequest | None, ApiError | None]:
    try:
        return parse_request(kind, body, {}, CONTEXT), None
    except ApiError as error:
        return None, error


@given(st.binary(max_size=40))
def test_any_bytes_are_a_4xx(body):
    with pytest.raises(ApiError):
        parse_request("chat", body, {}, CONTEXT)
