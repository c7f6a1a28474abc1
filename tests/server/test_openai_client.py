"""The official client, and curl, against a real `lab serve` process."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator

import httpx
import openai
import pytest

from lab.bench.served import served

ASK = [{"role": "user", "content": "What is backpressure?"}]
GREEDY = {"model": "lab-1m", "messages": ASK, "temperature": 0.0}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """One server for all tests here."""
    with served("lab-1m", "cpu", slots=4) as endpoint:
        yield f"http://{endpoint.host}:{endpoint.port}"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_left(url: str) -> Iterator[None]:
    """After each test no request is open and every slot is free."""
    yield
    give_up = time.monotonic() + 20
    while (state := httpx.get(f"{url}/debug/requests").json())["requests"]:
        assert time.monotonic() < give_up, state
        time.sleep(0.02)
    assert state["engine"] is None or state["engine"]["slots_free"] == 4


def test_a_chat_streams_readable_text_and_its_pieces_are_the_whole(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**GREEDY, max_tokens=40)
    with client.chat.completions.create(**GREEDY, max_tokens=40, stream=True) as stream:
        chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(pieces) == whole.choices[0].message.content
    assert len([piece for piece in pieces if piece]) > 3
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1
    assert {chunk.system_fingerprint for chunk in chunks} == {whole.system_fingerprint}
    words = "".join(pieces).split()
    assert len(words) >= 5
    assert all(word.isprintable() for word in words)


def test_a_completion_streams_and_is_the_same_whole(client: openai.OpenAI) -> None:
    asked = {"model": "lab-1m", "prompt": "The queue", "temperature": 0.0, "max_tokens": 20}
    whole = client.completions.create(**asked)
    with client.completions.create(**asked, stream=True) as stream:
        pieces = [chunk.choices[0].text for chunk in stream]
    assert "".join(pieces) == whole.choices[0].text
    assert whole.object == "text_completion"


def test_usage_comes_last_and_only_when_asked_for(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**GREEDY, max_tokens=8, extra_body={"ignore_eos": True})
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + 8
    options = {"include_usage": True}
    with client.chat.completions.create(
        **GREEDY, max_tokens=8, stream=True, stream_options=options, extra_body={"ignore_eos": True}
    ) as stream:
        *chunks, last = list(stream)
    assert last.choices == []
    assert last.usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks)
    with client.chat.completions.create(**GREEDY, max_tokens=8, stream=True) as stream:
        assert all(chunk.usage is None for chunk in stream)


def test_a_length_ends_with_length(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**GREEDY, max_tokens=3, extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length"
    assert client.chat.completions.create(**GREEDY, max_completion_tokens=3).usage.completion_tokens <= 3


def test_a_stop_string_ends_the_text_before_it(client: openai.OpenAI) -> None:
    text = client.chat.completions.create(**GREEDY, max_tokens=40).choices[0].message.content
    stop = text.split()[3]
    stopped = client.chat.completions.create(**GREEDY, max_tokens=40, stop=stop)
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].message.content == text[: text.index(stop)]
    with client.chat.completions.create(**GREEDY, max_tokens=40, stop=["\0", stop], stream=True) as stream:
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(pieces) == text[: text.index(stop)]


def test_a_seed_makes_the_draws_repeat(client: openai.OpenAI) -> None:
    def draw(seed: int) -> str:
        asked = {**GREEDY, "temperature": 1.5, "max_tokens": 24, "seed": seed}
        return str(
            client.chat.completions.create(**asked, extra_body={"ignore_eos": True})
            .choices[0]
            .message.content
        )

    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_the_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["lab-1m"]


def test_refusals_are_the_exceptions_that_the_client_knows(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=ASK)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(**GREEDY, n=2)
    assert (bad.value.param, bad.value.code) == ("n", "unsupported_parameter")
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="lab-1m", prompt="word " * 3000)
    assert (long.value.param, long.value.code) == ("prompt", "context_length_exceeded")


def test_ignored_fields_are_named_in_a_header(client: openai.OpenAI) -> None:
    answer = client.chat.completions.with_raw_response.create(**GREEDY, max_tokens=2, user="u", store=False)
    assert answer.headers["x-ignored-params"] == "user, store"
    assert answer.headers["cache-control"] == "no-store"


def test_a_cancelled_stream_is_an_error_of_the_client(client: openai.OpenAI, url: str) -> None:
    endless = {**GREEDY, "stream": True, "max_tokens": 900, "extra_body": {"ignore_eos": True}}
    response = client.chat.completions.with_raw_response.create(**endless)
    with response.parse() as stream:
        next(stream)
        cancel = httpx.post(f"{url}/v1/requests/{response.headers['x-request-id']}/cancel")
        assert cancel.status_code == 202
        with pytest.raises(openai.APIError, match="cancelled") as cancelled:
            list(stream)
    assert cancelled.value.code == "client_cancel"


def test_a_client_that_leaves_is_noticed(client: openai.OpenAI, url: str) -> None:
    endless = {**GREEDY, "stream": True, "max_tokens": 900, "extra_body": {"ignore_eos": True}}
    with client.chat.completions.create(**endless) as stream:
        next(stream)
    metrics = httpx.get(f"{url}/metrics").text
    give_up = time.monotonic() + 20
    while 'outcome="client_disconnect"' not in metrics:
        assert time.monotonic() < give_up, metrics
        time.sleep(0.02)
        metrics = httpx.get(f"{url}/metrics").text


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_curl_reads_the_stream(client: openai.OpenAI, url: str) -> None:
    body = {**GREEDY, "max_tokens": 12, "stream": True}
    done = subprocess.run(
        ["curl", "-sN", "-D", "-", f"{url}/v1/chat/completions", "-H", "Content-Type: application/json", "-d", json.dumps(body)],
        capture_output=True,
        check=True,
        timeout=60,
    )  # fmt: skip
    head, _, stream = done.stdout.decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200")
    assert "content-type: text/event-stream; charset=utf-8" in head.lower()
    assert "x-accel-buffering: no" in head.lower()
    events = stream.strip().split("\n\n")
    assert all(event.startswith("data: ") for event in events)
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == client.chat.completions.create(**{**GREEDY, "max_tokens": 12}).choices[0].message.content
