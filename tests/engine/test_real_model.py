"""The engine on a shipped model in float64, where batching changes no token."""

from __future__ import annotations

import pytest
import torch

from lab.engine.config import EngineConfig
from lab.engine.detokenize import Vocabulary
from lab.engine.loop import EngineLoop
from lab.engine.mailbox import LocalMailbox
from lab.engine.messages import Abort, Credit, Delta, Done, Parked, SamplingParams, Submit
from lab.engine.model_runner import ModelRunner, load_engine
from lab.model.checkpoint import load

PROMPTS = {"a": range(5, 9), "b": range(20, 90), "c": range(300, 303), "d": range(7, 47), "e": (500,)}


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return load("lab-100k", device="cpu", dtype="float64")


class Engine:
    def __init__(self, model, slots=3, prefill_chunk=32):
        self.mailbox = LocalMailbox()
        vocabulary = Vocabulary.of(model.tokenizer, model.config.vocab_size)
        self.loop = EngineLoop(ModelRunner(model, slots, 256), vocabulary, self.mailbox, prefill_chunk)
        self.events = []

    def step(self, *commands):
        self.mailbox.put(commands)
        events = self.loop.step()
        self.events += events
        return events

    def run(self, *commands):
        self.mailbox.put(commands)
        while self.step() or not self.loop.idle:
            pass
        return self

    def text(self, name):
        return "".join(e.text for e in self.events if isinstance(e, Delta) and e.attempt_id == name)

    def done(self, name):
        return [e for e in self.events if isinstance(e, Done) and e.attempt_id == name]


def ask(name, max_tokens=30, capacity=None, **params):
    settings = SamplingParams(max_tokens=max_tokens, **{"temperature": 0.0, "ignore_eos": True} | params)
    return Submit(name, tuple(PROMPTS[name]), settings, capacity)


def plain_greedy(model, prompt, count):
    """The oracle: the whole text from scratch for each token, no cache, no batch, no engine."""
    tokens = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            tokens.append(int(model.transformer(torch.tensor([tokens]))[0, -1].argmax()))
    return tokens[len(prompt) :]


def test_a_batch_gives_each_request_the_text_it_gets_alone(model):
    engine = Engine(model)
    engine.step(ask("a"), ask("b"))
    engine.step(ask("c", capacity=2), ask("d"))
    engine.step(ask("e"), Abort("b"))
    while not engine.loop.idle or engine.loop.snapshot()["parked"]:
        back = [Credit("c", 1)] if engine.loop.snapshot()["outstanding"].get("c") else []
        engine.step(*back)
    for name in "acde":
        assert engine.text(name) == Engine(model).run(ask(name)).text(name)
        assert len(engine.done(name)) == 1


@pytest.mark.parametrize("name", PROMPTS)
def test_greedy_text_is_that_of_the_plain_model(model, name):
    engine = Engine(model, prefill_chunk=7).run(ask(name))
    expected = plain_greedy(model, PROMPTS[name], 30)
    data = b"".join(model.tokenizer.token_bytes(token) for token in expected)
    assert engine.text(name) == data.decode("utf-8", "replace")


def test_seeded_sampling_is_the_same_alone_and_in_company(model):
    sampled = {"temperature": 0.9, "top_p": 0.95, "top_k": 40, "seed": 5}
    alone = Engine(model).run(ask("d", **sampled)).text("d")
    neighbours = [ask("a"), ask("c", temperature=1.0, seed=1), ask("b", temperature=0.7, top_k=3)]
    assert Engine(model, slots=4).run(*neighbours, ask("d", **sampled)).text("d") == alone
    assert Engine(model).run(ask("d", **sampled | {"seed": 6})).text("d") != alone


def test_a_slow_reader_parks_its_own_request_and_no_other(model):
    engine = Engine(model).run(ask("a", capacity=3), ask("c"), ask("d"))
    assert [e.attempt_id for e in engine.events if isinstance(e, Parked)] == ["a"]
    assert engine.done("c")
    assert engine.done("d")
    batches = [e.stats.batch for e in engine.events if hasattr(e, "stats")]
    assert max(batches) == 3
    assert engine.loop.snapshot()["slots"] == {"a": 0}
    while engine.loop.snapshot()["parked"]:
        engine.run(Credit("a", 1))
    assert engine.text("a") == Engine(model).run(ask("a")).text("a")


def test_a_slot_used_before_leaves_no_trace(model):
    engine = Engine(model, slots=1).run(ask("b"), ask("a"))
    assert engine.text("a") == Engine(model).run(ask("a")).text("a")


def test_load_engine_says_what_it_loaded():
    runner, vocabulary, info = load_engine(EngineConfig("lab-100k", "cpu", slots=2, max_len=64))
    assert (runner.slots, runner.max_len) == (info.slots, info.max_len) == (2, 64)
    assert (info.model, info.device, info.vocab_size) == ("lab-100k", "cpu", len(vocabulary))
    assert info.fingerprint
