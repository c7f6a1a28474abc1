"""The simulator: the worked example, all six policies, and every way in which a run can end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.endings import ENDINGS, Reason
from lab.core.errors import CapacityError, TraceError
from lab.core.lifecycle import State
from lab.core.trace import POLICIES, TraceRun, TraceSettings, figures, run_trace

CANCEL_AT_8 = ((8, Reason.CLIENT_CANCEL),)


def run(**settings: object) -> TraceRun:
    return run_trace(TraceSettings(**settings))  # type: ignore[arg-type]


def test_the_worked_example() -> None:
    bounded = run(signals=CANCEL_AT_8)
    assert (bounded.generated, bounded.sent, bounded.dropped) == ("ABCDE", "AB", "CDE")
    assert bounded.paused == (3, 5, 7)
    assert (bounded.reason, bounded.end) == (Reason.OVERALL_DEADLINE, 8)
    assert bounded.late == (Reason.CLIENT_CANCEL,)
    assert bounded.cleanups == 1
    assert bounded.waste == 3 / 5


def test_the_worked_example_without_a_bound() -> None:
    for settings in (TraceSettings(capacity=None), TraceSettings(policy="unbounded")):
        unbounded = run_trace(settings)
        assert (unbounded.generated, unbounded.sent, unbounded.dropped) == ("ABCDEFG", "AB", "CDEFG")
        assert unbounded.paused == ()
        assert unbounded.waste == 5 / 7


def test_low_1_gives_the_same_tokens_in_other_pauses() -> None:
    wide = run(low=1)
    assert (wide.generated, wide.sent, wide.dropped) == ("ABCDE", "AB", "CDE")
    assert wide.paused == (3, 4, 5)


def test_each_tick_says_what_it_did() -> None:
    ticks = run().ticks
    assert [tick.queued for tick in ticks] == ["A", "AB", "ABC", "ABC", "BCD", "BCD", "CDE", "CDE", "CDE"]
    assert [tick.sent for tick in ticks] == ["", "", "", "", "A", "A", "AB", "AB", "AB"]
    assert [tick.generated for tick in ticks] == ["A", "B", "C", "", "D", "", "E", "", ""]
    assert [tick.drained for tick in ticks] == ["", "", "", "", "A", "", "B", "", ""]
    assert [tick.ending for tick in ticks] == [None] * 8 + [Reason.OVERALL_DEADLINE]


def test_each_tick_knows_the_state_of_the_request() -> None:
    parked = [tick.tick for tick in run(low=1).ticks if tick.state is State.PARKED]
    assert parked == [3, 4, 5]
    quick = run(tokens="AB", drain=(0, 0, 0, 2)).ticks
    assert [tick.state for tick in quick] == [State.DECODE, State.FLUSHING, State.FLUSHING, State.ENDED]
    assert State.PARKED not in {tick.state for tick in run(policy="block").ticks}  # the step waits, not it


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("park", ("ABCDE", "AB", "CDE", (3, 5, 7), "overall_deadline", 8, 3, 1.0)),
        ("coalesce", ("ABCDEFG", "ABCDEF", "G", (), "overall_deadline", 8, 4, 1.0)),
        ("fail", ("ABC", "", "ABC", (), "slow_consumer", 3, 3, 1.0)),
        ("unbounded", ("ABCDEFG", "AB", "CDEFG", (), "overall_deadline", 8, 5, 1.0)),
        ("drop", ("ABCDEFG", "AB", "CDEFG", (), "overall_deadline", 8, 3, 1.0)),
        ("block", ("ABCDE", "AB", "CDE", (3, 5, 7), "overall_deadline", 8, 3, 1.5)),
    ],
)
def test_policies_side_by_side(policy: str, expected: tuple[object, ...]) -> None:
    result = run(policy=policy)
    seen = (result.generated, result.sent, result.dropped, result.paused, str(result.reason), result.end)
    assert (*seen, result.high_water, result.neighbour.tpot) == expected


def test_drop_leaves_holes_in_a_text_that_ends_normally() -> None:
    result = run(policy="drop", capacity=1, drain=(0, 0, 0, 1, 1, 1, 1, 1), deadline=20)
    assert result.reason is Reason.STOP
    assert result.sent == "ADEFG"
    assert result.dropped == "BC"
    assert [tick.lost for tick in result.ticks][:3] == ["", "B", "C"]


def test_only_block_makes_the_neighbour_wait() -> None:
    for policy in POLICIES:
        neighbour = run(policy=policy, drain=(0,), deadline=20).neighbour
        assert bool(neighbour.stalled) is (policy == "block")
    waited = run(policy="block", drain=(0,), deadline=20).neighbour
    assert waited.stalled == tuple(range(3, 20))
    assert waited.last == 23  # free again in tick 20, with four tokens to go


def test_repeated_characters_are_different_tokens() -> None:
    result = run(tokens="aaaa", capacity=2, drain=(0, 0, 0, 1), deadline=4)
    assert (result.generated, result.sent, result.dropped) == ("aaa", "a", "aa")


def test_stop_comes_in_the_tick_that_sends_the_last_token() -> None:
    result = run(tokens="AB", drain=(0, 0, 2, 0), deadline=8)
    assert (result.reason, result.end, result.sent) == (Reason.STOP, 2, "AB")


def test_the_deadline_beats_a_last_token_of_its_own_tick() -> None:
    result = run(tokens="AB", drain=(0, 0, 2), deadline=2)
    assert (result.reason, result.end, result.sent, result.dropped) == (
        Reason.OVERALL_DEADLINE,
        2,
        "",
        "AB",
    )


def test_deadline_0_ends_before_anything_is_generated() -> None:
    result = run(deadline=0)
    assert (result.generated, result.end, result.reason) == ("", 0, Reason.OVERALL_DEADLINE)
    assert result.waste is None


def test_after_its_pattern_the_reader_takes_nothing_until_the_deadline() -> None:
    result = run(drain=(0, 1), deadline=30)
    assert (result.sent, result.end, result.reason) == ("A", 30, Reason.OVERALL_DEADLINE)


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_deadline_a_pattern_that_is_over_ends_as_slow_consumer(policy: str) -> None:
    result = run(policy=policy, drain=(0, 0), deadline=None)
    assert (result.reason, result.end, result.sent) == (Reason.SLOW_CONSUMER, 2, "")


def test_without_a_deadline_a_reader_who_takes_everything_ends_as_stop() -> None:
    result = run(drain=(1,) * 8, deadline=None)
    assert (result.reason, result.end, result.sent) == (Reason.STOP, 7, "ABCDEFG")


def test_the_first_of_two_signals_wins_and_limits_come_first() -> None:
    first = ((2, Reason.CLIENT_DISCONNECT), (2, Reason.CLIENT_CANCEL))
    assert run(signals=first).reason is Reason.CLIENT_DISCONNECT
    assert run(signals=first).late == (Reason.CLIENT_CANCEL,)
    both = run(deadline=2, signals=first)
    assert both.reason is Reason.OVERALL_DEADLINE
    assert both.late == (Reason.CLIENT_DISCONNECT, Reason.CLIENT_CANCEL)
    assert both.cleanups == 1


def test_a_signal_after_the_end_never_arrives() -> None:
    assert run(signals=((9, Reason.CLIENT_CANCEL),)).late == ()


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "3"])
def test_a_capacity_that_is_none_is_an_error(capacity: object) -> None:
    with pytest.raises(CapacityError):
        run(capacity=capacity)


@pytest.mark.parametrize("low", [3, -1, 1.0])
def test_low_must_lie_below_the_capacity(low: object) -> None:
    with pytest.raises(CapacityError):
        run(low=low)


def test_low_needs_a_capacity() -> None:
    with pytest.raises(CapacityError):
        run(capacity=None, low=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"deadline": -1},
        {"deadline": 1001},
        {"deadline": 2.0},
        {"deadline": True},
        {"drain": ()},
        {"drain": (4,)},
        {"drain": (-1,)},
        {"drain": (True,)},
        {"drain": (0,) * 1001},
        {"policy": "hope"},
        {"tokens": ""},
        {"tokens": "x" * 1001},
        {"signals": ((-1, Reason.CLIENT_CANCEL),)},
        {"signals": ((1, Reason.STOP),)},
        {"signals": ((1, Reason.OVERLOADED),)},
        {"signals": ((1, "tired"),)},
    ],
    ids=str,
)
def test_settings_that_define_no_trace_are_errors(settings: dict[str, object]) -> None:
    with pytest.raises(TraceError):
        run(**settings)


def test_figures_are_plain_and_those_of_the_runs() -> None:
    found = figures({"worked": {"signals": [[8, "client_cancel"]], "drain": [1, 0, 0, 0, 1, 0, 1, 0, 0]}})
    assert found == {
        "worked": {
            "generated": "ABCDE",
            "sent": "AB",
            "dropped": "CDE",
            "paused": [3, 5, 7],
            "ending": "overall_deadline",
            "end": 8,
            "late": ["client_cancel"],
            "cleanups": 1,
            "high_water": 3,
            "neighbour_tpot": 1.0,
        }
    }


@pytest.mark.parametrize("case", [{"speed": 3}, {"drain": 7}, {"signals": [[1, "tired"]]}], ids=str)
def test_figures_of_no_trace_are_an_error(case: dict[str, object]) -> None:
    with pytest.raises(TraceError):
        figures({"case": case})


SIGNALS = [reason for reason, ending in ENDINGS.items() if not (ending.natural or ending.refusal)]


@st.composite
def any_settings(draw: st.DrawFn) -> TraceSettings:
    capacity = draw(st.none() | st.integers(1, 5))
    return TraceSettings(
        capacity=capacity,
        drain=tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=14))),
        deadline=draw(st.none() | st.integers(0, 16)),
        low=None if capacity is None else draw(st.none() | st.integers(0, capacity - 1)),
        policy=draw(st.sampled_from(POLICIES)),
        tokens=draw(st.text("ABC", min_size=1, max_size=9)),
        signals=tuple(draw(st.lists(st.tuples(st.integers(0, 16), st.sampled_from(SIGNALS)), max_size=3))),
    )


@given(any_settings())
def test_what_holds_for_every_run(settings: TraceSettings) -> None:
    result = run_trace(settings)
    assert result.cleanups == 1
    assert sorted(result.generated) == sorted(result.sent + result.dropped)
    assert settings.tokens.startswith(result.generated)
    assert settings.policy == "drop" or result.generated == result.sent + result.dropped
    assert [tick.ending for tick in result.ticks[:-1]] == [None] * result.end
    assert result.ticks[-1].ending is result.reason
    if settings.capacity is not None and settings.policy not in ("unbounded", "coalesce"):
        assert result.high_water <= settings.capacity
    if result.reason is Reason.STOP:
        assert len(result.generated) == len(settings.tokens)
        assert result.ticks[-1].queued == ""


@given(any_settings())
def test_a_reader_never_faster_than_the_generator_gets_the_same_from_a_bounded_queue(
    settings: TraceSettings,
) -> None:
    slow = tuple(min(take, 1) for take in settings.drain)
    common = {"drain": slow, "deadline": settings.deadline, "tokens": settings.tokens}
    bounded = run(capacity=settings.capacity, low=settings.low, **common)
    unbounded = run(capacity=None, **common)
    assert bounded.sent == unbounded.sent
    assert len(bounded.dropped) <= len(unbounded.dropped)
