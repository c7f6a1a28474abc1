"""Credits, queue and lifecycle together, under any sequence of what can happen to them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lab.core.endings import ENDINGS, Reason
from lab.core.errors import CapacityError
from lab.core.lifecycle import TRANSITIONS, Lifecycle, State
from lab.core.send_queue import Credits, SendQueue

marks = st.integers(1, 6).flatmap(lambda high: st.tuples(st.just(high), st.none() | st.integers(0, high - 1)))
moves = st.lists(
    st.sampled_from(["reserve", "publish", "cancel", "take", "write", "give_back_too_many"]), max_size=60
)


@settings(max_examples=200)
@given(marks, moves)
def test_credits_are_conserved_and_the_queue_never_exceeds_its_capacity(bounds, moves):
    high, low = bounds
    credit, queue = Credits(high, low), SendQueue(high)
    low = high - 1 if low is None else low
    reserved = queued = writing = 0
    parked = False
    for move in moves:
        if move == "reserve":
            granted = credit.reserve()
            assert granted == (not parked and reserved + queued + writing < high)
            reserved += granted
            parked = not granted
        elif move == "publish" and reserved:
            queue.put("event", 1)
            reserved, queued = reserved - 1, queued + 1
        elif move == "take" and queued:
            assert queue.take() == "event"
            queued, writing = queued - 1, writing + 1
        elif move in ("write", "cancel") and (writing if move == "write" else reserved):
            armed = credit.give_back(1) if move == "write" else credit.cancel()
            reserved, writing = (reserved, writing - 1) if move == "write" else (reserved - 1, writing)
            crossed = parked and reserved + queued + writing <= low
            assert armed is crossed
            parked = parked and not crossed
        elif move == "give_back_too_many":
            with pytest.raises(CapacityError):
                credit.give_back(reserved + queued + writing + 1)
        assert credit.outstanding == reserved + queued + writing <= high
        assert credit.parked is parked
        assert (len(queue), queue.bytes) == (queued, queued)
        assert queue.high_water <= high


@given(marks, st.lists(st.integers(1, 6), max_size=20))
def test_a_park_is_followed_by_one_re_arm_per_crossing(bounds, returns):
    credit = Credits(*bounds)
    armed = parks = 0
    for n in returns:
        was_parked = credit.parked
        while credit.reserve():
            pass
        parks += not was_parked
        for _ in range(min(n, credit.outstanding)):
            armed += credit.give_back(1)
    assert armed == parks - credit.parked


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 9)), max_size=30), st.integers(0, 30))
def test_a_queue_loses_nothing_and_keeps_the_order(items, taken):
    queue = SendQueue(None)
    for item, size in items:
        queue.put(item, size)
    assert queue.bytes == sum(size for _, size in items)
    out = [queue.take() for _ in range(min(taken, len(items)))]
    assert out + queue.drop_all() == [item for item, _ in items]
    assert queue.snapshot() == {"events": 0, "bytes": 0, "high_water": len(items)}


SIGNALS = [reason for reason in Reason if not ENDINGS[reason].natural and not ENDINGS[reason].refusal]


class OneRequest(RuleBasedStateMachine):
    """A request as its two owners see it: the engine reserves and generates, the server queues and sends.

    The machine keeps its own plain account of every token and every signal; the classes must agree with it.
    """

    @initialize(bounds=marks)
    def accept(self, bounds):
        self.credit = Credits(*bounds)
        self.queue = SendQueue(bounds[0])
        self.released = []
        self.life = Lifecycle(self.release)
        self.generated = self.sent = self.dropped = 0
        self.signals = 0
        self.seen = State.QUEUED

    def release(self, reason):
        self.released.append(reason)
        self.dropped += len(self.queue.drop_all())

    @precondition(lambda self: self.life.state is State.QUEUED)
    @rule()
    def start(self):
        self.life.advance(State.PREFILL)

    @precondition(lambda self: self.life.state in (State.PREFILL, State.DECODE, State.PARKED))
    @rule()
    def step(self):
        """One step of the engine: a token if there is a credit, else a park."""
        if self.credit.reserve():
            assert self.life.state is not State.PARKED
            if self.life.state is State.PREFILL:
                self.life.advance(State.DECODE)
            self.generated += 1
            self.queue.put(self.generated, size=1)
        elif self.life.state is State.DECODE:
            self.life.advance(State.PARKED)

    @precondition(lambda self: self.life.state in (State.PREFILL, State.DECODE))
    @rule(natural=st.sampled_from([Reason.STOP, Reason.LENGTH]))
    def model_done(self, natural):
        self.life.model_done(natural)

    @precondition(lambda self: len(self.queue) > 0)
    @rule()
    def send(self):
        assert self.queue.take() == self.sent + 1, "in order, none twice, none left out"
        self.sent += 1
        if self.credit.give_back(1) and self.life.state is State.PARKED:
            self.life.advance(State.DECODE)

    @precondition(lambda self: self.life.state is State.FLUSHING and not len(self.queue))
    @rule()
    def last_byte(self):
        self.signals += 1
        assert self.life.flushed() is True

    @rule(reason=st.sampled_from(SIGNALS))
    def signal(self, reason):
        self.signals += 1
        first = self.life.state is not State.ENDED
        assert self.life.try_finish(reason) is first

    @precondition(lambda self: self.life.state is State.ENDED)
    @rule()
    def late_model(self):
        self.signals += 1
        self.life.model_done(Reason.STOP)

    @invariant()
    def every_move_is_in_the_table(self):
        if self.life.state is not self.seen:
            assert self.life.state in TRANSITIONS[self.seen]
            self.seen = self.life.state

    @invariant()
    def the_queue_is_bounded(self):
        assert len(self.queue) <= self.queue.capacity
        assert len(self.queue) + self.dropped == self.credit.outstanding

    @invariant()
    def parked_means_parked_on_both_sides(self):
        if self.life.state is not State.ENDED:
            assert self.credit.parked is (self.life.state is State.PARKED)

    @invariant()
    def tokens_are_accounted_for(self):
        assert self.generated == self.sent + self.dropped + len(self.queue)

    @invariant()
    def one_ending_and_every_other_signal_counted(self):
        ended = self.life.state is State.ENDED
        assert self.released == ([self.life.reason] if ended else [])
        assert (self.life.reason is not None) is ended
        assert self.life.late.total() == self.signals - ended
        if ended:
            assert len(self.queue) == 0

    @invariant()
    def a_natural_ending_dropped_nothing(self):
        if self.life.reason in (Reason.STOP, Reason.LENGTH):
            assert (self.dropped, self.sent) == (0, self.generated)


TestOneRequest = OneRequest.TestCase
TestOneRequest.settings = settings(max_examples=150, stateful_step_count=40)
