import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.endings import ENDINGS, Reason
from lab.core.errors import CapacityError, SettingsError
from lab.core.limits import TIE_ORDER, Limits, LimitSettings

OFF = LimitSettings(None, None, None, None, None)
ALL = LimitSettings(
    queue_timeout=10, ttft_timeout=20, idle_timeout=5, overall_deadline=100, stall_timeout=7, flush_timeout=2
)


def only(**limits) -> Limits:
    names = ("queue_timeout", "ttft_timeout", "idle_timeout", "overall_deadline", "stall_timeout")
    return Limits(LimitSettings(**{name: limits.get(name) for name in names}), accepted_at=0.0)


# -- settings


@pytest.mark.parametrize("value", [0, 0.0, -1, -1e-9, math.nan, math.inf, -math.inf, True, "5"])
@pytest.mark.parametrize(
    "name",
    ["queue_timeout", "ttft_timeout", "idle_timeout", "overall_deadline", "stall_timeout", "flush_timeout"],
)
def test_a_limit_that_means_nothing_is_named(name, value):
    with pytest.raises(SettingsError, match=f"{name}="):
        LimitSettings(**{name: value})


def test_all_bad_limits_come_in_one_error():
    with pytest.raises(SettingsError, match=r"queue_timeout=-1, idle_timeout=0$"):
        LimitSettings(queue_timeout=-1, idle_timeout=0)


def test_none_turns_a_limit_off_but_not_the_flush():
    assert Limits(OFF, 0.0).next_due() is None
    assert Limits(OFF, 0.0).due(1e18) is None
    with pytest.raises(SettingsError, match="flush_timeout=None"):
        LimitSettings(flush_timeout=None)


@pytest.mark.parametrize("instant", [math.nan, math.inf, -math.inf])
def test_instants_are_finite(instant):
    with pytest.raises(SettingsError, match="accepted_at"):
        Limits(ALL, instant)
    with pytest.raises(SettingsError, match="deadline_at"):
        Limits(ALL, 0.0, deadline_at=instant)


# -- each limit alone


def test_a_limit_is_due_at_its_instant_and_not_before():
    limits = only(overall_deadline=8)
    assert limits.next_due() == 8
    assert limits.due(math.nextafter(8, 0)) is None
    assert limits.due(8) is Reason.OVERALL_DEADLINE
    assert limits.due(9) is Reason.OVERALL_DEADLINE


def test_queue_timeout_runs_only_while_queued():
    limits = only(queue_timeout=10)
    assert limits.due(10) is Reason.QUEUE_TIMEOUT
    limits.on_started(9)
    assert limits.next_due() is None


def test_ttft_counts_from_acceptance_with_the_queue_in_it():
    limits = only(ttft_timeout=20)
    limits.on_started(15)
    assert limits.next_due() == 20
    assert limits.due(20) is Reason.TTFT_TIMEOUT
    limits.on_token(19)
    assert limits.next_due() is None


def test_limits_from_acceptance_count_from_acceptance():
    limits = Limits(ALL, accepted_at=1000.0)
    assert limits.snapshot()["due"] == {
        "overall_deadline": 1100.0,
        "queue_timeout": 1010.0,
        "ttft_timeout": 1020.0,
    }


def test_idle_runs_in_prefill_and_decode_but_not_in_the_queue():
    limits = only(idle_timeout=5)
    assert limits.next_due() is None
    limits.on_started(100)
    assert limits.next_due() == 105
    limits.on_token(104)
    assert limits.next_due() == 109
    assert limits.due(109) is Reason.IDLE_TIMEOUT


def test_idle_stands_still_while_parked_and_starts_anew():
    limits = only(idle_timeout=5)
    limits.on_started(0)
    limits.on_token(1)
    limits.on_parked(1)
    assert limits.next_due() is None
    limits.on_resumed(1000)
    assert limits.next_due() == 1005
    limits.on_token(1003)
    assert limits.next_due() == 1008


def test_a_token_that_was_on_its_way_when_the_request_parked_does_not_wake_idle():
    limits = only(idle_timeout=5)
    limits.on_started(0)
    limits.on_parked(1)
    limits.on_token(2)
    assert limits.next_due() is None


def test_nothing_is_expected_of_a_model_that_is_done():
    limits = only(ttft_timeout=20, idle_timeout=5)
    limits.on_started(0)
    limits.on_model_done(1)
    assert limits.next_due() is None


def test_overall_always_runs():
    limits = only(overall_deadline=100)
    limits.on_started(1)
    limits.on_token(2)
    limits.on_parked(3)
    assert limits.due(100) is Reason.OVERALL_DEADLINE
    limits.on_resumed(4)
    limits.on_model_done(5)
    assert limits.due(100) is Reason.OVERALL_DEADLINE


@pytest.mark.parametrize(("deadline_at", "due"), [(50.0, 50.0), (150.0, 100.0), (None, 100.0), (-1.0, -1.0)])
def test_the_earlier_of_the_two_deadlines_counts(deadline_at, due):
    limits = Limits(LimitSettings(None, None, None, 100, None), 0.0, deadline_at=deadline_at)
    assert limits.next_due() == due


def test_the_callers_deadline_holds_without_one_of_our_own():
    limits = Limits(OFF, 0.0, deadline_at=3.0)
    assert limits.due(3.0) is Reason.OVERALL_DEADLINE


def test_stall_counts_from_the_first_undelivered_event_then_from_the_last_credit():
    limits = only(stall_timeout=7)
    limits.on_started(0)
    assert limits.next_due() is None
    limits.on_token(10)
    assert limits.next_due() == 17
    limits.on_token(12)
    assert limits.next_due() == 17, "a token is no sign of a reader"
    limits.on_credit(15)
    assert limits.next_due() == 22
    limits.on_token(16)
    limits.on_credit(20, n=2)
    assert limits.next_due() is None, "all is delivered: the reader owes nothing"
    limits.on_token(30)
    assert limits.next_due() == 37


def test_stall_runs_while_parked_and_while_flushing():
    limits = only(stall_timeout=7)
    limits.on_started(0)
    limits.on_token(1)
    limits.on_parked(2)
    assert limits.due(8) is Reason.SLOW_CONSUMER
    limits.on_resumed(3)
    limits.on_model_done(4)
    assert limits.due(8) is Reason.SLOW_CONSUMER


@pytest.mark.parametrize("n", [-1, 0, 3])
def test_credits_for_events_that_never_were(n):
    limits = only(stall_timeout=7)
    limits.on_token(0)
    limits.on_token(0)
    with pytest.raises(CapacityError):
        limits.on_credit(1, n)
    assert limits.snapshot() == {"due": {"slow_consumer": 7.0}, "undelivered": 2}


# -- several at once


def due_at_ten(reasons: set[Reason]) -> Limits:
    """Limits that all fall on instant 10, for any set of reasons that can run together."""
    limits = only(
        queue_timeout=10 if Reason.QUEUE_TIMEOUT in reasons else None,
        ttft_timeout=10 if Reason.TTFT_TIMEOUT in reasons else None,
        idle_timeout=5 if Reason.IDLE_TIMEOUT in reasons else None,
        overall_deadline=10 if Reason.OVERALL_DEADLINE in reasons else None,
        stall_timeout=4 if Reason.SLOW_CONSUMER in reasons else None,
    )
    if Reason.QUEUE_TIMEOUT not in reasons:
        limits.on_started(5)
    if Reason.SLOW_CONSUMER in reasons:
        limits.on_token(5)
        limits.on_token(5)
        limits.on_credit(6)
    return limits


def can_run_together(reasons: set[Reason]) -> bool:
    before_start = Reason.QUEUE_TIMEOUT in reasons
    if before_start and reasons & {Reason.IDLE_TIMEOUT, Reason.SLOW_CONSUMER}:
        return False
    return not {Reason.TTFT_TIMEOUT, Reason.SLOW_CONSUMER} <= reasons


@pytest.mark.parametrize(
    "reasons",
    [
        frozenset(chosen)
        for size in range(1, 5)
        for chosen in itertools.combinations(TIE_ORDER, size)
        if can_run_together(set(chosen))
    ],
    ids=lambda reasons: "+".join(sorted(reasons)),
)
def test_on_one_instant_the_tie_order_decides(reasons):
    limits = due_at_ten(set(reasons))
    assert limits.due(9.999) is None
    assert limits.due(10) is next(reason for reason in TIE_ORDER if reason in reasons)


def test_the_tie_order_is_written_down():
    assert TIE_ORDER == (
        Reason.OVERALL_DEADLINE,
        Reason.QUEUE_TIMEOUT,
        Reason.TTFT_TIMEOUT,
        Reason.IDLE_TIMEOUT,
        Reason.SLOW_CONSUMER,
    )
    assert set(TIE_ORDER) == {reason for reason in Reason if ENDINGS[reason].outcome == "timeout"} | {
        Reason.SLOW_CONSUMER
    }


def test_the_earlier_limit_wins_however_late_anyone_looks():
    limits = only(queue_timeout=5, overall_deadline=6)
    assert limits.due(5.5) is Reason.QUEUE_TIMEOUT
    assert limits.due(1000) is Reason.QUEUE_TIMEOUT


def test_a_snapshot_shows_what_runs():
    limits = Limits(ALL, 0.0)
    assert limits.snapshot() == {
        "due": {"overall_deadline": 100.0, "queue_timeout": 10.0, "ttft_timeout": 20.0},
        "undelivered": 0,
    }
    limits.on_started(1)
    limits.on_token(2)
    assert limits.snapshot() == {
        "due": {"overall_deadline": 100.0, "idle_timeout": 7.0, "slow_consumer": 9.0},
        "undelivered": 1,
    }
    assert repr(Limits(OFF, 0.0)) == "Limits({'due': {}, 'undelivered': 0})"


# -- any history

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["on_started", "on_token", "on_parked", "on_resumed", "on_credit", "on_model_done"]),
        st.integers(0, 5),
    ),
    max_size=30,
)


@given(EVENTS, st.integers(0, 200))
def test_due_and_next_due_agree_and_nothing_is_due_early(events, look):
    limits = Limits(ALL, 0.0)
    now = 0.0
    for name, wait in events:
        now += wait
        if name != "on_credit" or limits.undelivered:
            getattr(limits, name)(now)
    at = limits.next_due()
    assert at is not None, "the overall deadline always runs"
    assert at <= 100
    assert (limits.due(look) is not None) == (at <= look)
    before = limits.snapshot()
    limits.due(look)
    assert limits.snapshot() == before, "to ask is not to change"
