"""Random schedules of submits, aborts and credits: what must hold for every one of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine.messages import Abort, Aborted, Credit, Delta, Done, Failed, Parked, Resumed, Started, Submit

NAMES = [f"r{n}" for n in range(8)]
ENDINGS = (Done, Aborted, Failed)

submits = st.fixed_dictionaries(
    {
        "prompt": st.text(alphabet="acxyz", min_size=0, max_size=12),
        "max_tokens": st.integers(0, 9),
        "capacity": st.sampled_from([None, 1, 2, 3]),
        "coalesce": st.booleans(),
        "temperature": st.sampled_from([0.0, 0.0, 1.0]),
        "stop": st.sampled_from([(), ("de",), ("yza", "b")]),
        "ignore_eos": st.booleans(),
        "seed": st.just(3),
    }
)
actions = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(NAMES), submits),
    st.tuples(st.just("abort"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("credit"), st.sampled_from(NAMES), st.integers(1, 3)),
    st.tuples(st.just("step"), st.just(""), st.none()),
)
faults = st.tuples(st.just("fault"), st.just(""), st.sampled_from(["decode", 0, 1, 2]))


class Run:
    """Drives a loop, keeps the books of a well-behaved serving loop, and checks every event against them."""

    def __init__(self, driver, submit):
        self.driver, self.make = driver, submit
        self.queued: Counter[str] = Counter()  # events not yet given back
        self.used: set[str] = set()
        self.tokens: Counter[str] = Counter()
        self.ended: dict[str, object] = {}
        self.submits: dict[str, Submit] = {}
        self.posted: list[object] = []

    def act(self, kind, name, value):
        if kind == "step":
            self.step()
        elif kind == "fault" and value == "decode":
            self.driver.runner.broken = True
        elif kind == "fault":
            self.driver.runner.broken_slots = {value}
        elif kind == "submit" and name not in self.used:
            self.used.add(name)
            self.submits[name] = self.make(name, **value)
            self.posted.append(self.submits[name])
        elif kind == "credit" and self.queued[name]:
            n = min(value, self.queued[name])
            self.queued[name] -= n
            self.posted.append(Credit(name, n))
        elif kind == "abort" and value:  # in the middle of the next step
            self.driver.runner.during = lambda: self.driver.mailbox.put([Abort(name)])
        elif kind == "abort":
            self.posted.append(Abort(name))

    def step(self):
        posted, self.posted = self.posted, []
        events = self.driver.step(*posted)
        self.driver.runner.during = lambda: None
        self.driver.runner.broken, self.driver.runner.broken_slots = False, set()
        for event in events:
            self.check(event)
        return events

    def check(self, event):
        name = getattr(event, "attempt_id", None)
        if name is None:
            return
        assert name not in self.ended, "nothing follows an ending"
        if isinstance(event, Delta):
            assert event.tokens or event.text or self.submits[name].params.ignore_eos
            assert event.index == self.tokens[name]
            self.tokens[name] += event.tokens
            self.queued[name] += 1
            capacity = self.submits[name].capacity
            if capacity is not None and not self.submits[name].coalesce:
                assert self.queued[name] <= capacity, "never more events out than the queue may hold"
        elif isinstance(event, Parked):
            assert not self.submits[name].coalesce
        elif isinstance(event, ENDINGS):
            self.ended[name] = event
            if isinstance(event, Done):
                assert event.generated == self.tokens[name] + event.trimmed
            elif isinstance(event, Aborted):
                assert event.generated >= self.tokens[name]

    def finish(self):
        """Readers catch up: everything that was accepted comes to its end."""
        for _ in range(400):
            for name in [name for name, count in self.queued.items() if count]:
                self.act("credit", name, self.queued[name])
            if not self.step() and self.driver.loop.idle and not self.posted:
                return
        raise AssertionError(f"still busy: {self.driver.loop.snapshot()}")


@given(st.lists(st.one_of(actions, faults), min_size=5, max_size=80))
@settings(deadline=None, max_examples=500)
def test_every_submit_ends_once_and_every_slot_comes_back(new_driver, submit, schedule):
    run = Run(new_driver(slots=3, max_len=16, prefill_chunk=4), submit)
    for action in schedule:
        run.act(*action)
    run.finish()
    assert set(run.ended) == run.used
    snapshot = run.driver.loop.snapshot()
    assert snapshot["free"] == [0, 1, 2]
    assert not snapshot["waiting"]
    assert not snapshot["outstanding"]
    parks = Counter(e.attempt_id for e in run.driver.events if isinstance(e, Parked))
    resumes = Counter(e.attempt_id for e in run.driver.events if isinstance(e, Resumed))
    starts = Counter(e.attempt_id for e in run.driver.events if isinstance(e, Started))
    assert all(parks[name] - 1 <= resumes[name] <= parks[name] for name in parks)
    assert all(count == 1 for count in starts.values())


@given(st.lists(actions, min_size=5, max_size=60))
@settings(deadline=None, max_examples=150)
def test_neighbours_change_no_token(new_driver, submit, schedule):
    """A request that nobody aborts gets the text that it gets alone, whatever happens around it."""
    alone = new_driver(slots=3, max_len=16, prefill_chunk=4)
    mine = submit("mine", "xac", max_tokens=9, temperature=1.0, seed=11, stop=("q",))
    alone.run(mine)
    run = Run(new_driver(slots=3, max_len=16, prefill_chunk=4), submit)
    run.submits["mine"] = mine
    run.used.add("mine")
    run.posted.append(mine)
    for action in schedule:
        run.act(*action)
    run.finish()
    assert run.driver.text("mine") == alone.text("mine")
