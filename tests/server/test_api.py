"""What a body may say, and what is answered to one that says something else."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from lab.core.endings import Reason
from lab.core.errors import LabError
from lab.server import params
from lab.server.api import ApiContext, GenerationRequest, parse_request
from lab.server.errors import ApiError

HI = [{"role": "user", "content": "hi"}]


class LetterTokenizer:
    """One token per character, and one in front of a chat's every message."""

    vocab_size = 128

    def encode(self, text: str) -> list[int]:
        return [1, *(2 + ord(letter) % 100 for letter in text)]

    def chat(self, messages: Sequence[Any]) -> list[int]:
        if any("<|eos|>" in message["content"] for message in messages):
            raise LabError("a message must not contain the control token <|eos|>")
        return [token for message in messages for token in self.encode(message["content"])]

    def token_bytes(self, token: int) -> bytes:
        return b"????" if token else b""


CONTEXT = ApiContext(("lab-1m", "lab-100k"), LetterTokenizer(), max_len=64)


def parse(kind: Any, body: Any, **headers: str) -> GenerationRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_request(kind, raw, {name.replace("_", "-"): text for name, text in headers.items()}, CONTEXT)


def chat(**fields: Any) -> GenerationRequest:
    return parse("chat", {"model": "lab-1m", "messages": HI, **fields})


def completion(**fields: Any) -> GenerationRequest:
    return parse("completion", {"model": "lab-1m", "prompt": "hi", **fields})


def refused(call: Any, *args: Any, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    error = caught.value
    assert 400 <= error.status < 500
    shape = json.loads(error.body())
    assert shape.keys() == {"error"}
    assert shape["error"].keys() == {"message", "type", "param", "code"}
    assert shape["error"]["type"] == "invalid_request_error"
    assert error.reason in (Reason.INVALID, Reason.TOO_LONG)
    assert error.param is None or error.param in error.message or error.status == 404
    return error


# Bodies that are understood


def test_a_body_with_nothing_but_what_is_required() -> None:
    asked = chat()
    assert asked.prompt == (1, 2 + ord("h") % 100, 2 + ord("i") % 100)
    assert (asked.stream, asked.include_usage, asked.ignored) == (False, False, ())
    assert (asked.app_id, asked.client_request_id, asked.deadline_ms) == ("anonymous", None, None)
    sampling = asked.params
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 1.0, 0)
    assert (sampling.seed, sampling.stop, sampling.ignore_eos, sampling.min_tokens) == (None, (), False, 0)


def test_the_default_length_is_the_rest_of_the_context_for_a_chat_and_16_for_a_completion() -> None:
    assert chat().params.max_tokens == 64 - 3
    assert completion().params.max_tokens == 16
    assert completion(prompt="x" * 60).params.max_tokens == 3


def test_every_supported_field_arrives() -> None:
    asked = chat(
        stream=True, stream_options={"include_usage": True}, max_completion_tokens=9, min_tokens=2, temperature=0.5,
        top_p=0.9, top_k=40, seed=-(2**63), stop=["a", "b"], ignore_eos=True,
    )  # fmt: skip
    assert asked.stream
    assert asked.include_usage
    sampling = asked.params
    assert (sampling.max_tokens, sampling.min_tokens, sampling.temperature) == (9, 2, 0.5)
    assert (sampling.top_p, sampling.top_k, sampling.seed) == (0.9, 40, -(2**63))
    assert (sampling.stop, sampling.ignore_eos) == (("a", "b"), True)


@pytest.mark.parametrize("name", sorted(params.SUPPORTED["chat"].keys() - {"model", "messages"}))
def test_null_means_not_given(name: str) -> None:
    assert chat(**{name: None}) == chat()


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_a_field_at_its_default_is_accepted_and_says_nothing(kind: Any) -> None:
    call = chat if kind == "chat" else completion
    for name, default in params.AT_DEFAULT[kind].items():
        assert call(**{name: default}) == call(), name
        assert call(**{name: None}) == call(), name


def test_ignored_fields_are_named() -> None:
    asked = chat(user="u", store=True, metadata={"a": 1}, service_tier="auto")
    assert asked.ignored == ("user", "metadata", "store", "service_tier")
    assert asked.params == chat().params


def test_the_lists_of_fields_do_not_overlap() -> None:
    for kind in ("chat", "completion"):
        lists = [params.SUPPORTED[kind].keys(), params.AT_DEFAULT[kind].keys(), set(params.IGNORED)]
        assert sum(map(len, lists)) == len(set().union(*lists))
        assert set(params.REQUIRED[kind]) <= params.SUPPORTED[kind].keys()


def test_content_may_be_text_parts_and_roles_are_mapped() -> None:
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    assert parse("chat", {"model": "lab-1m", "messages": [{"role": "user", "content": parts}]}) == chat()
    for role in params.ROLES:
        assert parse("chat", {"model": "lab-1m", "messages": [{"role": role, "content": "hi"}]}) == chat()


def test_an_answer_may_come_back_as_the_client_got_it() -> None:
    answer = {"role": "assistant", "content": "hi", "refusal": None, "tool_calls": None, "annotations": []}
    assert parse("chat", {"model": "lab-1m", "messages": [answer]}) == chat()


def test_a_prompt_is_a_text_tokens_or_one_of_them_in_an_array() -> None:
    as_text = completion(prompt="hi").prompt
    assert completion(prompt=["hi"]).prompt == as_text
    assert completion(prompt=list(as_text)).prompt == as_text
    assert completion(prompt=[list(as_text)]).prompt == as_text
    assert completion(prompt="").prompt == (1,)


def test_the_ways_to_say_greedy_and_all_tokens() -> None:
    assert chat(temperature=0).params.temperature == 0.0
    assert chat(temperature=1e-300).params.temperature == 0.0
    assert chat(top_k=-1).params.top_k == 0
    assert chat(top_k=2**31 - 1).params.top_k == 128


def test_a_stop_may_be_one_text() -> None:
    assert chat(stop="end").params.stop == ("end",)
    assert chat(stop=[]).params.stop == ()


def test_headers() -> None:
    asked = parse(
        "chat", {"model": "lab-1m", "messages": HI},
        x_app_id="search.v2", x_request_id="r-1", x_request_deadline_ms="250",
    )  # fmt: skip
    assert (asked.app_id, asked.client_request_id, asked.deadline_ms) == ("search.v2", "r-1", 250)


@pytest.mark.parametrize("label", ["", "two words", "é", "x" * 129, "a\tb"])
def test_an_odd_request_id_is_no_label_and_no_error(label: str) -> None:
    assert parse("chat", {"model": "lab-1m", "messages": HI}, x_request_id=label).client_request_id is None


# Bodies that are refused

NOT_TEXT = [None, 1, 1.5, True, [], {}]
NOT_WHOLE = ["1", 1.5, 1.0, True, [], {}, 2**63, -(2**63) - 1, 10**400, 1e400]
CHAT_TABLE: list[tuple[str, list[Any], str]] = [
    ("model", [None, 1, True, [], {}], "model"),
    ("stream", ["true", 1, 0, [], {}], "stream"),
    ("max_tokens", [*NOT_WHOLE, 0, -1, 2**31], "max_tokens"),
    ("max_completion_tokens", [*NOT_WHOLE, 0, -1], "max_completion_tokens"),
    ("min_tokens", [*NOT_WHOLE, -1, 62], "min_tokens"),
    ("temperature", ["0", True, [], {}, -0.1, 2.1, 10**400, -1e308], "temperature"),
    ("top_p", ["0", True, [], 0, -1, 1.01], "top_p"),
    ("top_k", ["1", 1.5, True, -2, 2**31], "top_k"),
    ("seed", ["1", 1.5, True, [], 2**63, -(2**63) - 1], "seed"),
    ("stop", [1, True, {}, "", list("abcde"), "x" * 1025], "stop"),
    ("stop", [["a", ""]], "stop[1]"),
    ("stop", [["a", 1], ["a", None], ["a", ["b"]]], "stop[1]"),
    ("ignore_eos", ["no", 0, []], "ignore_eos"),
    ("stream_options", [[], "x", 1, True], "stream_options"),
    ("stream_options", [{"include_usage": 1}, {"include_usage": "true"}], "stream_options.include_usage"),
    ("stream_options", [{"continuous_usage_stats": True}], "stream_options.continuous_usage_stats"),
    ("stream_options", [{"x": 1}], "stream_options.x"),
    ("messages", [None, "hi", {}, 1, []], "messages"),
    ("messages", [["hi"], [None], [[]], [1]], "messages[0]"),
    ("messages", [[{}], [{"content": "x"}], *([{"role": r, "content": "x"}] for r in [1, None, "", "tool", []])], "messages[0].role"),
    ("messages", [[{"role": "user"}], *([{"role": "user", "content": c}] for c in [None, 1, True, {}])], "messages[0].content"),
    ("messages", [[{"role": "user", "content": [c]}] for c in ["x", None, {}, {"type": "image_url"}, {"type": "text"}]], "messages[0].content[0]"),
    ("messages", [[{"role": "user", "content": [{"type": "text", "text": 1}]}]], "messages[0].content[0].text"),
    ("messages", [[*HI, {"role": "user", "content": "x", "weight": 1}]], "messages[1].weight"),
    ("messages", [[{"role": "user", "content": "x", "tool_calls": [1]}]], "messages[0].tool_calls"),
    ("messages", [[{"role": "user", "content": "<|eos|>"}]], "messages"),
    ("n", [2, 0, True, "1"], "n"),
    ("logprobs", [True, 0], "logprobs"),
    ("tools", [[{}], {}, False], "tools"),
    ("response_format", [{"type": "json_object"}, "text"], "response_format"),
    ("presence_penalty", [0.1, -1, False], "presence_penalty"),
    ("logit_bias", [{"1": 1}, []], "logit_bias"),
    ("prompt", ["hi"], "prompt"),
    ("temprature", [1], "temprature"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "param"),
    [(name, value, param) for name, values, param in CHAT_TABLE for value in values],
    ids=lambda value: repr(value)[:40],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(name: str, value: Any, param: str) -> None:
    extra = {"stream": True} if name == "stream_options" else {}
    assert refused(chat, **{**extra, name: value}).param == param


@pytest.mark.parametrize("prompt", [None, 1, 1.5, True, {}, [], ["a", "b"], [[1], [2]], [[]]], ids=repr)
def test_a_wrong_prompt_is_refused(prompt: Any) -> None:
    assert refused(completion, prompt=prompt).param == "prompt"


@pytest.mark.parametrize("token", [-1, 128, 2**70, 1.0, True, "x", None, []], ids=repr)
def test_a_prompt_token_is_one_of_the_vocabulary(token: Any) -> None:
    assert refused(completion, prompt=[1, token]).param == "prompt[1]"


@pytest.mark.parametrize(
    ("name", "value"), [("messages", HI), ("echo", True), ("best_of", 2), ("logprobs", 0), ("suffix", "x")]
)
def test_what_a_completion_does_not_know_is_refused(name: str, value: Any) -> None:
    assert refused(completion, **{name: value}).param == name


def test_a_misspelt_field_is_told_the_right_spelling() -> None:
    assert (
        refused(chat, temprature=1).message
        == "temprature: is not a known parameter; did you mean temperature?"
    )
    assert refused(chat, stream_option={}).message.endswith("did you mean stream_options?")
    assert refused(chat, zebra=1).message == "zebra: is not a known parameter; leave it out"
    options = {"includeusage": True}
    assert refused(chat, stream=True, stream_options=options).message.endswith("did you mean include_usage?")
    assert refused(chat, **{"x" * 100_000: 1}).message.endswith("leave it out")


@pytest.mark.parametrize("name", ["model", "messages"])
def test_a_missing_field_is_named(name: str) -> None:
    body = {"model": "lab-1m", "messages": HI}
    del body[name]
    error = refused(parse, "chat", body)
    assert (error.param, error.code) == (name, "missing_required_parameter")


def test_an_unknown_model_is_404_and_the_served_ones_are_told() -> None:
    error = refused(chat, model="gpt-4")
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")
    assert "lab-1m, lab-100k" in error.message


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nul", b"\xff\xfe", b'"text"', b"[]", b"1", b"null", b"true", b'{"a":1,}', b"{'a':1}",
        b'{"model":"lab-1m"} x', '{"model":"lab-1m"}'.encode("utf-16"), b"\xef\xbb\xbf{}", b'{"a":"\n"}', b"\0",
    ],
    ids=repr,
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    error = refused(parse, "chat", body)
    assert (error.status, error.code) == (400, "invalid_json")


def raw(**fields: str) -> bytes:
    pairs = {"model": '"lab-1m"', "messages": json.dumps(HI), **fields}
    return ("{" + ",".join(f'"{name}":{text}' for name, text in pairs.items()) + "}").encode()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000])
def test_a_number_that_is_none_is_refused_where_it_stands(number: str) -> None:
    assert refused(parse, "chat", raw(temperature=number)).param == "temperature"
    assert refused(parse, "chat", raw(metadata=f'{{"a":[1,{number}]}}')).param == "metadata.a[1]"


def test_a_name_given_twice_is_refused_at_any_level() -> None:
    assert refused(parse, "chat", raw()[:-1] + b',"model":"lab-100k"}').param == "model"
    twice = raw(messages='[{"role":"user","role":"system","content":"hi"}]')
    error = refused(parse, "chat", twice)
    assert (error.param, error.code) == ("role", "duplicate_parameter")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        raw(metadata="[" * 50_000 + "]" * 50_000),
        raw(tools="[" * 900 + "]" * 900),
        raw(metadata="[" * 900 + "NaN" + "]" * 900),
    ],
    ids=["open arrays", "open objects", "ignored", "at default", "a number far down"],
)
def test_deep_nesting_is_refused_and_breaks_nothing(body: bytes) -> None:
    assert refused(parse, "chat", body).status == 400


def test_half_a_surrogate_pair_is_refused_and_the_answer_is_valid() -> None:
    assert (
        refused(parse, "chat", raw(messages=r'[{"role":"user","content":"\ud83d"}]')).param
        == "messages[0].content"
    )
    assert refused(parse, "chat", raw(stop=r'"\udc00"')).param == "stop"
    error = refused(parse, "chat", raw(**{r"\ud800": "1"}))
    assert error.param is not None
    error.body().decode("ascii")


def test_a_wide_body_is_refused_in_linear_time() -> None:
    names = ",".join(f'"k{n}":0' for n in range(30_000))
    began = time.process_time()
    refused(parse, "chat", f'{{{names},"k29999":1}}'.encode())
    refused(parse, "chat", raw(metadata="[" * 400 + "1," * 50_000 + "NaN" + "]" * 400))
    assert time.process_time() - began < 5  # quadratic work would take minutes


# Lengths


class Unread(LetterTokenizer):
    def encode(self, text: str) -> list[int]:
        raise AssertionError("this text can be refused without reading it")


def test_a_text_that_cannot_fit_is_refused_unread() -> None:
    context = ApiContext(("lab-1m",), Unread(), max_len=64)
    for kind, name, value in [
        ("completion", "prompt", "x" * (64 * 4 + 1)),
        ("completion", "prompt", list(range(64))),
        ("chat", "messages", [{"role": "user", "content": "x" * 200}] * 2),
        ("chat", "messages", [{"role": "user", "content": ""}] * 65),
    ]:
        body = json.dumps({"model": "lab-1m", name: value}).encode()
        with pytest.raises(ApiError) as caught:
            parse_request(kind, body, {}, context)  # type: ignore[arg-type]
        assert (caught.value.param, caught.value.code) == (name, "context_length_exceeded")


@pytest.mark.parametrize(("call", "param"), [(chat, "messages"), (completion, "prompt")])
def test_a_prompt_that_fills_the_context_is_too_long(call: Any, param: str) -> None:
    text = "x" * 63  # and the token in front
    error = refused(call, **{param: [{"role": "user", "content": text}] if param == "messages" else text})
    assert (error.status, error.param, error.code) == (400, param, "context_length_exceeded")
    assert error.reason is Reason.TOO_LONG


def test_an_answer_asked_for_beyond_the_context_is_refused_with_the_room_there_is() -> None:
    assert chat(max_tokens=61).params.max_tokens == 61
    error = refused(chat, max_tokens=62)
    assert (error.param, error.code, error.reason) == (
        "max_tokens",
        "context_length_exceeded",
        Reason.TOO_LONG,
    )
    assert "61" in error.message
    assert refused(chat, max_completion_tokens=62).param == "max_completion_tokens"


def test_a_prompt_of_no_token_is_refused() -> None:
    class NoMark(LetterTokenizer):
        def encode(self, text: str) -> list[int]:
            return super().encode(text)[1:]

    body = json.dumps({"model": "lab-1m", "prompt": ""}).encode()
    with pytest.raises(ApiError, match="at least one token"):
        parse_request("completion", body, {}, ApiContext(("lab-1m",), NoMark(), 64))


def test_two_names_for_one_length_must_agree() -> None:
    assert chat(max_tokens=5, max_completion_tokens=5).params.max_tokens == 5
    assert refused(chat, max_tokens=5, max_completion_tokens=6).param == "max_completion_tokens"


def test_stream_options_need_a_stream() -> None:
    for options in ({}, {"include_usage": True}):
        assert refused(chat, stream_options=options).param == "stream_options"
        assert refused(chat, stream=False, stream_options=options).param == "stream_options"


# Headers


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "+5", " 5", "1e3", "x", "٣", "9" * 13])
def test_a_deadline_is_a_positive_number_of_milliseconds(value: str) -> None:
    error = refused(parse, "chat", {"model": "lab-1m", "messages": HI}, x_request_deadline_ms=value)
    assert error.param == "X-Request-Deadline-Ms"


@pytest.mark.parametrize("value", ["two words", "a,b", "-x", "é", "x" * 65, 'a"b', "a\n"])
def test_an_app_id_is_a_plain_name(value: str) -> None:
    assert refused(parse, "chat", {"model": "lab-1m", "messages": HI}, x_app_id=value).param == "X-App-Id"
