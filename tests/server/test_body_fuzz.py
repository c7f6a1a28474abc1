"""Thousands of bodies, one in ten valid: a valid one gets 200 and its own text, any other a 4xx, and nothing leaks.

The valid ones are decoded side by side in changing company; each must say what the engine says to it alone.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import torch

from lab.bench.body_fuzz import VALID, claims
from lab.core.sse import SSEParser
from lab.engine.detokenize import Vocabulary
from lab.engine.loop import EngineLoop
from lab.engine.mailbox import LocalMailbox
from lab.engine.messages import Delta, Done, Submit
from lab.engine.model_runner import ModelRunner
from lab.evidence import record
from lab.model.checkpoint import Model, load
from lab.server.api import ApiContext, parse_request
from lab.server.local import LocalServer
from lab.server.settings import ServerSettings

MODEL = "lab-1m"
SEED = 20261
SLOTS, MAX_LEN, MAX_BODY = 8, 256, 1 << 14
CI_BODIES, SOAK_BODIES = 500, 10_000
AT_ONCE = 12
TIE = 1e-4  # two best logits closer than this may change places in another batch
JSON_TYPE = {"content-type": "application/json"}
WORDS = [
    "the",
    "queue",
    "grows",
    "when",
    "a",
    "reader",
    "is",
    "slow",
    "and",
    "Backpressure",
    "helps",
    "队列",
    "naïve",
    "🙂",
    "503",
    "retry",
]


@dataclass
class Body:
    """One request. `made`: `valid`, or what is wrong with it; `param`: the field that the answer must name."""

    path: str
    content: bytes
    made: str = VALID
    param: str | None = None
    status: tuple[int, ...] = (200,)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> Any:
        return "chat" if "chat" in self.path else "completion"


# Valid bodies


def valid_fields(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """A path and the fields of a valid, greedy request for it."""
    text = " ".join(draw.choices(WORDS, k=draw.randint(1, 12)))
    fields: dict[str, Any] = {"model": MODEL, "temperature": draw.choice([0, 0.0, 1e-9])}
    chat = draw.random() < 0.5
    if chat:
        content = draw.choice(
            [text, [{"type": "text", "text": text[:5]}, {"type": "text", "text": text[5:]}]]
        )
        first = [{"role": draw.choice(["system", "developer"]), "content": "Be short."}] * draw.randint(0, 1)
        fields["messages"] = [*first, {"role": "user", "content": content}]
    else:
        fields["prompt"] = draw.choice(
            [text, [text], [draw.randrange(2, 1000) for _ in range(draw.randint(1, 30))]]
        )
    fields["max_tokens"] = draw.randint(1, 16)
    optional: dict[str, Callable[[], Any]] = {
        "stream": lambda: draw.choice([True, True, False, None]),
        "stop": lambda: draw.choice([None, [], "the", [" a", "e "], ["zzz", "\n"]]),
        "seed": lambda: draw.randint(-(2**63), 2**63 - 1),
        "ignore_eos": lambda: draw.choice([True, False]),
        "min_tokens": lambda: draw.randint(0, fields["max_tokens"]),
        "top_p": lambda: draw.choice([1, 0.5, 1e-9]),
        "top_k": lambda: draw.choice([-1, 0, 1, 50]),
        "n": lambda: 1,
        "user": lambda: "u" * draw.randint(0, 90),
        "metadata": lambda: {"a": [1, {"b": None}]},
        "presence_penalty": lambda: 0,
        "logit_bias": lambda: draw.choice([None, {}]),
    }
    for name in draw.sample(sorted(optional), draw.randint(0, 5)):
        fields[name] = optional[name]()
    if fields.get("stream") and draw.random() < 0.5:
        fields["stream_options"] = {"include_usage": draw.choice([True, False])}
    return ("/v1/chat/completions" if chat else "/v1/completions"), fields


def valid(draw: random.Random) -> Body:
    path, fields = valid_fields(draw)
    headers = draw.choice(
        [{}, {"X-App-Id": "shop"}, {"X-Request-Id": "x y"}, {"X-Request-Deadline-Ms": "600000"}]
    )
    names = draw.sample(list(fields), len(fields))
    content = json.dumps({name: fields[name] for name in names}, ensure_ascii=draw.random() < 0.5).encode()
    return Body(path, content, headers=dict(headers))


# Bodies with something wrong with them: each starts from a valid one

WRONG: dict[str, list[Any]] = {
    "model": [None, 1, True, [], {}],
    "stream": ["true", 1, [], {}],
    "max_tokens": [0, -1, "5", 1.0, 1.5, True, [], {}, 2**63, 10**400, MAX_LEN],
    "min_tokens": [-1, "5", 0.0, True, [], 2**80, 200],
    "temperature": [-0.1, 2.1, "0", True, [], {}, 10**400],
    "top_p": [0, -1, 1.1, "1", False, []],
    "top_k": [-2, 1.0, "1", True, 2**31],
    "seed": [2**63, -(2**63) - 1, 0.5, "1", True, []],
    "stop": [1, True, {}, "", [""], [1], list("abcde"), "x" * 2000],
    "ignore_eos": [0, "no", []],
    "n": [2, 0, "1", True, 1.5],
    "logit_bias": [{"1": 5}, [], "x"],
    "presence_penalty": [1, -0.5, "0", False],
}
WRONG_MESSAGES: list[tuple[Any, str]] = [
    ([], "messages"),
    ("hi", "messages"),
    ({}, "messages"),
    (None, "messages"),
    (["hi"], "messages[0]"),
    ([{}], "messages[0].role"),
    ([{"role": "tool", "content": "x"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "user", "content": {"a": 1}}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"),
    ([{"role": "user", "content": "x", "weight": 1}], "messages[0].weight"),
    ([{"role": "user", "content": "<|eos|>"}], "messages"),
]
WRONG_PROMPTS: list[tuple[Any, str]] = [
    (None, "prompt"),
    ([], "prompt"),
    ({}, "prompt"),
    (5, "prompt"),
    (["a", "b"], "prompt"),
    ([[1], [2]], "prompt"),
    ([1, -1], "prompt[1]"),
    ([1, 1.5], "prompt[1]"),
    ([1, 2**70], "prompt[1]"),
    ([1, "x"], "prompt[1]"),
]


def with_field(draw: random.Random, name: str, value: Any, made: str, param: str, status: int = 400) -> Body:
    path, fields = valid_fields(draw)
    body = {**fields, name: value}
    return Body(path, json.dumps(body).encode(), made, param, (status,))


def wrong_value(draw: random.Random) -> Body:
    name = draw.choice(sorted(WRONG))
    return with_field(draw, name, draw.choice(WRONG[name]), "wrong value", name)


def wrong_prompt(draw: random.Random) -> Body:
    path, fields = valid_fields(draw)
    name, table = ("messages", WRONG_MESSAGES) if "messages" in fields else ("prompt", WRONG_PROMPTS)
    fields[name], param = draw.choice(table)
    return Body(path, json.dumps(fields).encode(), "wrong prompt", param, (400,))


def unknown_field(draw: random.Random) -> Body:
    name = "x" + "".join(draw.choices("abc_é🙂.", k=draw.randint(0, 40)))
    return with_field(draw, name, draw.choice([1, None, {}, "x"]), "unknown field", name)


def unknown_model(draw: random.Random) -> Body:
    name = "".join(draw.choices("gpt-4/é\n ", k=draw.randint(0, 200)))
    return with_field(draw, "model", name, "unknown model", "model", 404)


def missing_field(draw: random.Random) -> Body:
    path, fields = valid_fields(draw)
    name = draw.choice(["model", "messages" if "messages" in fields else "prompt"])
    del fields[name]
    return Body(path, json.dumps(fields).encode(), "missing field", name, (400,))


def too_long(draw: random.Random) -> Body:
    path, fields = valid_fields(draw)
    text = " ".join(draw.choices(WORDS, k=400))
    name = "messages" if "messages" in fields else "prompt"
    fields[name] = [{"role": "user", "content": text}] if name == "messages" else text
    return Body(path, json.dumps(fields).encode(), "too long", name, (400,))


def cut_short(draw: random.Random) -> Body:
    body = valid(draw)
    return Body(body.path, body.content[: draw.randrange(len(body.content))], "cut short", None, (400,))


def no_json(draw: random.Random) -> Body:
    path = valid_fields(draw)[0]
    return Body(path, b"\xff" + draw.randbytes(draw.randint(0, 60)), "random bytes", None, (400,))


def no_object(draw: random.Random) -> Body:
    value = draw.choice([None, True, 1, 1.5, "text", [], [{}], [[]]])
    return Body(valid_fields(draw)[0], json.dumps(value).encode(), "no object", None, (400,))


def spliced(made: str, *texts: str) -> Callable[[random.Random], Body]:
    """A valid body with raw JSON text behind its first brace; the answer must name the field `user`."""

    def make(draw: random.Random) -> Body:
        path, fields = valid_fields(draw)
        fields.pop("user", None)
        content = json.dumps(fields)
        return Body(path, f'{{"user":{draw.choice(texts)},{content[1:]}'.encode(), made, None, (400,))

    return make


def twice(draw: random.Random) -> Body:
    path, fields = valid_fields(draw)
    name = draw.choice(sorted(fields))
    content = f"{{{json.dumps(name)}:{json.dumps(fields[name])},{json.dumps(fields)[1:]}"
    return Body(path, content.encode(), "name given twice", name, (400,))


def half_character(draw: random.Random) -> Body:
    return with_field(draw, "stop", draw.choice(["\ud83d", "a\udc00"]), "half a character", "stop")


def wrong_header(draw: random.Random) -> Body:
    body = valid(draw)
    name, values = draw.choice(
        [
            ("X-Request-Deadline-Ms", ["0", "-1", "soon", "1.5", "9" * 30]),
            ("X-App-Id", ["a b", "-", "x" * 65]),
        ]
    )
    return Body(body.path, body.content, "wrong header", name, (400,), {name: draw.choice(values)})


def too_large(draw: random.Random) -> Body:
    return Body(valid_fields(draw)[0], b"[" + b"0," * MAX_BODY, "too large", None, (413,))


MAKERS: tuple[Callable[[random.Random], Body], ...] = (
    wrong_value, wrong_value, wrong_value, wrong_prompt, wrong_prompt, unknown_field, unknown_model, missing_field,
    too_long, cut_short, no_json, no_object, twice, half_character, wrong_header, too_large,
    spliced("no number", "NaN", "-Infinity", "1e999", "[[NaN]]", "9" * 5000),
    spliced("deep nesting", "[" * 7000, "[" * 3000 + "]" * 3000, '{"a":' * 1500 + "1" + "}" * 1500),
)  # fmt: skip


def bodies(count: int, seed: int) -> list[Body]:
    draw = random.Random(seed)
    return [valid(draw) if n % 10 == 0 else draw.choice(MAKERS)(draw) for n in range(count)]


# The engine alone


class GapRunner(ModelRunner):
    """The real model; `gaps` are how far the best logits lie apart, one for each token.

    The three best: where the end of the text is barred, the second and third may be the two that count.
    """

    def __init__(self, model: Model, slots: int, max_len: int) -> None:
        super().__init__(model, slots, max_len)
        self.gaps: list[float] = []

    def _seen(self, logits: torch.Tensor) -> torch.Tensor:
        best = logits.reshape(-1, logits.shape[-1])[-1].topk(3).values
        self.gaps.append(float((best[:-1] - best[1:]).min()))
        return logits

    def prefill(self, tokens: Sequence[int], slot: int, start: int) -> torch.Tensor:
        return self._seen(super().prefill(tokens, slot, start))

    def decode(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int]) -> torch.Tensor:
        return self._seen(super().decode(tokens, positions, slots))


class Alone:
    """One request at a time through an engine loop of its own."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        model = load(MODEL, device="cpu")
        self.tokenizer = model.tokenizer
        self._runner = GapRunner(model, 1, MAX_LEN)
        self._mailbox = LocalMailbox()
        vocabulary = Vocabulary.of(model.tokenizer, model.config.vocab_size)
        self._loop = EngineLoop(self._runner, vocabulary, self._mailbox, prefill_chunk=MAX_LEN)

    def judge(self, body: Body, text: str, finish_reason: str) -> str:
        """`right`, `tie` or `wrong`."""
        context = ApiContext((MODEL,), self.tokenizer, MAX_LEN)
        asked = parse_request(body.kind, body.content, {}, context)
        gaps = self._runner.gaps
        gaps.clear()
        self._mailbox.put([Submit("alone", asked.prompt, asked.params)])
        deltas, ending = [], None
        while ending is None:
            for event in self._loop.step():
                deltas += [event] if isinstance(event, Delta) else []
                ending = event if isinstance(event, Done) else ending
        if (text, finish_reason) == ("".join(delta.text for delta in deltas), ending.reason):
            return "right"
        close = [n for n, gap in enumerate(gaps) if gap <= TIE]
        if not close:
            return "wrong"
        sure = "".join(delta.text for delta in deltas if delta.index + delta.tokens <= close[0])
        return "tie" if text.startswith(sure) else "wrong"


# The clients


def answer_of(body: Body, response: httpx.Response) -> tuple[str, str]:
    """Text and finish reason of a 200, streamed or whole."""
    if not response.headers["content-type"].startswith("text/event-stream"):
        (choice,) = response.json()["choices"]
        return (choice["text"] if body.kind == "completion" else choice["message"]["content"]), choice[
            "finish_reason"
        ]
    *events, last = SSEParser().feed(response.content)
    assert last.data == "[DONE]"
    choices = [choice for event in events for choice in json.loads(event.data)["choices"]]
    pieces = [c["text"] if body.kind == "completion" else c["delta"].get("content") or "" for c in choices]
    return "".join(pieces), choices[-1]["finish_reason"]


async def send_all(url: str, made: Sequence[Body]) -> list[httpx.Response]:
    """Every answer, `AT_ONCE` at a time."""
    answers: list[Any] = [None] * len(made)
    todo = iter(enumerate(made))

    async def work(client: httpx.AsyncClient) -> None:
        for n, body in todo:
            answers[n] = await client.post(
                body.path, content=body.content, headers={**JSON_TYPE, **body.headers}
            )

    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await asyncio.gather(*(work(client) for _ in range(AT_ONCE)))
    return answers


def check_refusal(body: Body, response: httpx.Response) -> None:
    shown = (body.made, body.content[:200], response.status_code, response.text[:300])
    assert response.status_code in body.status, shown
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}, shown
    assert error["message"], shown
    if body.param is not None:
        assert (error["param"] or "").startswith(body.param[:60]), shown  # or a place inside the field


def run_fuzz(count: int) -> dict[str, Any]:
    """Sends `count` bodies and checks each answer; the inputs of `claims`."""
    made = bodies(count, SEED)
    records: list[Any] = []
    settings = ServerSettings(
        model=MODEL, device="cpu", slots=SLOTS, max_len=MAX_LEN, max_body_bytes=MAX_BODY, ping_interval=0
    )
    with LocalServer(settings, engine="process", on_record=records.append) as server:
        responses = asyncio.run(send_all(server.url, made))
        left = httpx.get(f"{server.url}/debug/requests").json()
    alone = Alone()
    answers: dict[str, list[str]] = defaultdict(list)
    for body, response in zip(made, responses, strict=True):
        answer = str(response.status_code)
        if body.made == VALID:
            assert response.status_code == 200, (body.content, response.text)
            verdict = alone.judge(body, *answer_of(body, response))
            assert verdict != "wrong", (body.content, response.text)
            answer += f" {verdict}"
        else:
            check_refusal(body, response)
        answers[body.made].append(answer)
    assert len({record.request_id for record in records}) == len(records)
    return {
        "answers": dict(sorted(answers.items())),
        "open_requests": len(left["requests"]),
        "slots": SLOTS,
        "slots_free": left["engine"]["slots_free"],
        "records": len(records),
    }


def check_claims(result: dict[str, Any], count: int) -> None:
    assert result["bodies"] == count
    assert result["valid"] == result["valid_with_200_and_their_text"] == count // 10
    assert result["invalid"] == result["invalid_with_4xx"] == count - count // 10
    assert result["answers_5xx"] == result["leaked_requests"] == result["slots_not_free"] == 0
    assert result["one_record_each"]
    assert result["of_these_ties"] <= count // 100


def test_every_body_gets_what_it_should() -> None:
    check_claims(claims(**run_fuzz(CI_BODIES)), CI_BODIES)


def test_the_claims_see_what_is_wrong() -> None:
    good = {"valid": ["200 right", "200 tie"], "cut short": ["400"]}
    bad = {"valid": ["200 wrong", "500", "400"], "cut short": ["200", "404"]}
    rest = {"open_requests": 0, "slots": 4, "slots_free": 4}
    result = claims(good, records=3, **rest)
    assert (result["valid_with_200_and_their_text"], result["of_these_ties"]) == (2, 1)
    assert (result["invalid_with_4xx"], result["answers_5xx"], result["one_record_each"]) == (1, 0, True)
    result = claims(bad, open_requests=1, slots=4, slots_free=3, records=3)
    assert (result["valid"], result["valid_with_200_and_their_text"]) == (3, 0)
    assert (result["invalid"], result["invalid_with_4xx"], result["answers_5xx"]) == (2, 1, 1)
    assert (result["leaked_requests"], result["slots_not_free"], result["one_record_each"]) == (1, 1, False)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_thousand_bodies_get_what_they_should() -> None:
    inputs = run_fuzz(SOAK_BODIES)
    check_claims(claims(**inputs), SOAK_BODIES)
    record(
        "10_streaming_over_sse/body_fuzz.json",
        kind="measured",
        title="10,000 generated request bodies, one in ten valid, against a server with its engine",
        recipe="lab.bench.body_fuzz:claims",
        inputs=inputs,
        seed=SEED,
        command="python -m pytest -m soak tests/server/test_body_fuzz.py",
    )
