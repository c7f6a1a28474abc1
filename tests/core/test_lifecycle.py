import pytest

from lab.core.endings import Reason
from lab.core.errors import TransitionError
from lab.core.lifecycle import TRANSITIONS, Lifecycle, State


def at(state: State, **kwargs) -> Lifecycle:
    """A lifecycle that was walked to ``state``."""
    life = Lifecycle(**kwargs)
    if state is State.ENDED:
        life.try_finish(Reason.CLIENT_CANCEL)
        return life
    path = [State.PREFILL, State.DECODE, State.PARKED]
    for step in path[: ["queued", "prefill", "decode", "parked", "flushing"].index(state.value)]:
        if state is State.FLUSHING and step is State.PARKED:
            break
        life.advance(step)
    if state is State.FLUSHING:
        life.model_done(Reason.STOP)
    return life


@pytest.mark.parametrize("state", State)
def test_the_helper_reaches_every_state(state):
    assert at(state).state is state


@pytest.mark.parametrize("to", State)
@pytest.mark.parametrize("state", State)
def test_advance_follows_the_table_and_never_ends(state, to):
    life = at(state)
    if to in TRANSITIONS[state] and to not in (State.FLUSHING, State.ENDED):
        life.advance(to)
        assert life.state is to
    else:
        before = life.snapshot()
        with pytest.raises(TransitionError):
            life.advance(to)
        assert life.snapshot() == before


def test_the_table_is_the_one_of_the_design():
    assert {state.value: sorted(to.value for to in targets) for state, targets in TRANSITIONS.items()} == {
        "queued": ["ended", "prefill"],
        "prefill": ["decode", "ended", "flushing"],
        "decode": ["ended", "flushing", "parked"],
        "parked": ["decode", "ended"],
        "flushing": ["ended"],
        "ended": [],
    }


@pytest.mark.parametrize("state", [state for state in State if state is not State.ENDED])
def test_any_state_can_end_and_the_first_caller_wins(state):
    calls = []
    life = at(state, on_finish=calls.append)
    assert life.try_finish(Reason.OVERALL_DEADLINE) is True
    assert life.try_finish(Reason.CLIENT_CANCEL) is False
    assert life.try_finish(Reason.CLIENT_CANCEL) is False
    assert life.try_finish(Reason.OVERALL_DEADLINE) is False
    assert (life.state, life.reason, calls) == (
        State.ENDED,
        Reason.OVERALL_DEADLINE,
        [Reason.OVERALL_DEADLINE],
    )
    assert life.late == {Reason.CLIENT_CANCEL: 2, Reason.OVERALL_DEADLINE: 1}


def test_a_natural_ending_waits_for_the_last_byte():
    life = at(State.DECODE)
    life.model_done(Reason.LENGTH)
    assert (life.state, life.reason) == (State.FLUSHING, None)
    assert life.flushed() is True
    assert (life.state, life.reason) == (State.ENDED, Reason.LENGTH)
    assert life.flushed() is False
    assert life.late == {Reason.LENGTH: 1}


def test_the_model_is_done_but_the_reader_stopped():
    life = at(State.FLUSHING)
    assert life.try_finish(Reason.SLOW_CONSUMER) is True
    assert life.flushed() is False
    assert life.reason is Reason.SLOW_CONSUMER
    assert life.late == {Reason.STOP: 1}


def test_a_model_that_is_done_after_the_ending_is_one_late_signal():
    life = at(State.ENDED)
    life.model_done(Reason.STOP)
    assert life.flushed() is False
    assert life.snapshot() == {
        "state": "ended",
        "reason": "client_cancel",
        "natural": None,
        "late": {"stop": 1},
    }


@pytest.mark.parametrize("natural", [Reason.STOP, Reason.LENGTH])
@pytest.mark.parametrize("state", [State.QUEUED, State.PREFILL, State.DECODE, State.PARKED])
def test_no_success_before_the_model_says_so(state, natural):
    life = at(state)
    with pytest.raises(TransitionError):
        life.try_finish(natural)
    with pytest.raises(TransitionError):
        life.flushed()
    assert life.state is state
    assert life.late == {}


def test_the_natural_reason_cannot_change_on_the_way():
    life = at(State.FLUSHING)
    with pytest.raises(TransitionError):
        life.try_finish(Reason.LENGTH)
    with pytest.raises(TransitionError):
        life.model_done(Reason.LENGTH)
    assert life.flushed()
    assert life.reason is Reason.STOP


@pytest.mark.parametrize("state", [State.QUEUED, State.PARKED])
def test_a_model_is_not_done_where_it_does_not_run(state):
    life = at(state)
    with pytest.raises(TransitionError):
        life.model_done(Reason.STOP)
    assert life.snapshot()["natural"] is None


def test_a_model_is_done_only_by_a_natural_reason():
    with pytest.raises(TransitionError, match="drain"):
        at(State.DECODE).model_done(Reason.DRAIN)


@pytest.mark.parametrize("state", State)
def test_a_refusal_has_no_lifecycle(state):
    life = at(state)
    with pytest.raises(TransitionError):
        life.try_finish(Reason.OVERLOADED)
    assert life.state is state


def test_a_raising_callback_leaves_a_whole_ending():
    calls = []

    def on_finish(reason):
        calls.append(reason)
        raise RuntimeError("release failed")

    life = Lifecycle(on_finish)
    with pytest.raises(RuntimeError, match="release failed"):
        life.try_finish(Reason.DRAIN)
    assert (life.state, life.reason) == (State.ENDED, Reason.DRAIN)
    assert life.try_finish(Reason.CLIENT_CANCEL) is False
    assert calls == [Reason.DRAIN]


def test_the_callback_sees_the_ended_state_and_cannot_end_it_again():
    seen = []

    def on_finish(reason):
        seen.append((life.state, life.reason, life.try_finish(Reason.CLIENT_CANCEL)))

    life = Lifecycle(on_finish)
    assert life.try_finish(Reason.WORKER_LOST) is True
    assert seen == [(State.ENDED, Reason.WORKER_LOST, False)]
    assert life.late == {Reason.CLIENT_CANCEL: 1}


def test_a_repr_says_where_it_stands():
    life = Lifecycle()
    assert repr(life) == "Lifecycle(queued, reason=None)"
    life.try_finish(Reason.DRAIN)
    assert repr(life) == "Lifecycle(ended, reason=drain)"
