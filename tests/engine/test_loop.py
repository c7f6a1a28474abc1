"""The engine loop on a fake model: its order, its endings, its slots."""

from __future__ import annotations

import logging

import pytest

import lab.engine.loop as loop_module
from lab.engine.detokenize import Detokenizer
from lab.engine.messages import (
    Abort,
    Aborted,
    Credit,
    Delta,
    Done,
    Failed,
    Parked,
    Ping,
    Pong,
    Resumed,
    Started,
    Stepped,
    Stop,
)


def kinds(events):
    return [type(event).__name__ for event in events if not isinstance(event, Stepped)]


def test_one_request_from_submit_to_done(driver, submit):
    events = driver.run(submit("r", "xyab", max_tokens=3))
    assert kinds(events) == ["Started", "Delta", "Delta", "Delta", "Done"]
    assert driver.text("r") == "cde"
    assert driver.ending("r") == Done("r", "length", generated=3, trimmed=0, at=0.0)
    assert [e.index for e in driver.of("r") if isinstance(e, Delta)] == [0, 1, 2]


def test_the_end_of_sequence_is_generated_and_trimmed(driver, submit):
    driver.run(submit("r", "x", max_tokens=9))
    assert driver.text("r") == "yz"
    assert driver.ending("r") == Done("r", "stop", generated=3, trimmed=1, at=0.0)


def test_ignore_eos_goes_on_and_counts_the_token_without_text(driver, submit):
    driver.run(submit("r", "x", max_tokens=5, ignore_eos=True))
    assert driver.text("r") == "yzab"
    assert [e.tokens for e in driver.of("r") if isinstance(e, Delta)] == [1, 1, 1, 1, 1]
    assert driver.ending("r").reason == "length"


def test_min_tokens_bars_the_end_of_sequence(driver, submit):
    driver.run(submit("r", "z", max_tokens=4, min_tokens=4))
    done = driver.ending("r")
    assert (done.reason, done.generated, done.trimmed) == ("length", 4, 0)


def test_a_stop_string_ends_and_is_not_published(driver, submit):
    driver.run(submit("r", "a", max_tokens=20, stop=("ef",)))
    assert driver.text("r") == "bcd"
    assert driver.ending("r") == Done("r", "stop", generated=5, trimmed=2, at=0.0)


def test_min_tokens_lets_a_stop_string_pass(driver, submit):
    driver.run(submit("r", "a", max_tokens=20, min_tokens=5, stop=("ef", "kl")))
    assert driver.text("r") == "bcdefghij"


def test_an_unfinished_stop_string_goes_out_at_the_end(driver, submit):
    driver.run(submit("r", "a", max_tokens=3, stop=("dx",)))
    assert driver.text("r") == "bcd"
    assert driver.ending("r").trimmed == 0


def test_text_held_back_goes_out_before_the_end_of_sequence(driver, submit):
    driver.run(submit("r", "w", max_tokens=9, stop=("yzz",)))
    assert driver.text("r") == "xyz"
    assert driver.ending("r") == Done("r", "stop", generated=4, trimmed=1, at=0.0)


def test_a_slot_is_free_in_the_step_in_which_the_model_is_done(driver, submit):
    driver.step(submit("r", max_tokens=2))
    events = driver.step()
    assert kinds(events) == ["Delta", "Done"]
    assert events[-1].stats.slots_free == 4


def test_a_submit_beyond_the_slots_waits_its_turn(new_driver, submit):
    driver = new_driver(slots=2)
    driver.step(*(submit(name, max_tokens=2) for name in "abcd"))
    assert driver.loop.snapshot()["waiting"] == ["c", "d"]
    driver.run()
    started = [event.attempt_id for event in driver.events if isinstance(event, Started)]
    assert started == ["a", "b", "c", "d"]
    assert all(isinstance(driver.ending(name), Done) for name in "abcd")


def test_a_long_prompt_is_prefilled_in_chunks_while_others_decode(driver, submit):
    driver.step(submit("short", "a", max_tokens=20))
    driver.step(submit("long", "a" * 20, max_tokens=2))
    driver.step()
    driver.step()
    assert [chunk for chunk in driver.runner.prefilled if chunk[0] == 1] == [
        (1, start, (1,) * size) for start, size in ((0, 8), (8, 8), (16, 4))
    ]
    assert len(driver.text("short")) == 4, "one token a step, whatever the prefill"
    assert [stats.prefill_tokens for stats in driver.stats()] == [1, 8, 8, 4]


def test_short_prompts_share_the_prefill_budget(driver, submit):
    driver.step(*(submit(name, "abc") for name in ("p", "q", "r")))
    assert [(slot, start, len(tokens)) for slot, start, tokens in driver.runner.prefilled] == [
        (0, 0, 3),
        (1, 0, 3),
        (2, 0, 2),
    ]


def test_S08_an_abort_while_waiting_costs_no_prefill(new_driver, submit):
    driver = new_driver(slots=1)
    driver.step(submit("first", "aaa", max_tokens=3), submit("gone", "bbbbb"))
    driver.step(Abort("gone"))
    driver.run()
    assert sum(stats.prefill_tokens for stats in driver.stats()) == 3
    assert driver.ending("gone") == Aborted("gone", generated=0, discarded=0, at=0.0)


def test_S08_a_submit_and_its_abort_in_one_batch_cost_nothing(driver, submit):
    events = driver.step(submit("gone"), Abort("gone"))
    assert kinds(events) == ["Aborted"]
    assert driver.runner.prefilled == []


def test_an_abort_between_prefill_chunks_frees_the_slot(driver, submit):
    driver.step(submit("r", "a" * 30))
    driver.step(Abort("r"))
    assert driver.loop.idle
    assert len(driver.runner.prefilled) == 1


def test_an_abort_between_steps_discards_nothing(driver, submit):
    driver.step(submit("r", max_tokens=9))
    driver.step()
    driver.step(Abort("r"))
    assert driver.ending("r") == Aborted("r", generated=2, discarded=0, at=0.0)


def test_a_token_computed_for_an_aborted_sequence_is_discarded(driver, submit):
    driver.step(submit("r", max_tokens=9), submit("s", max_tokens=9))
    driver.runner.during = lambda: driver.mailbox.put([Abort("r")])
    driver.step()
    assert driver.ending("r") == Aborted("r", generated=1, discarded=1, at=0.0)
    assert driver.text("r") == "b"
    assert driver.text("s") == "bc"


def test_the_first_token_of_a_sequence_aborted_during_its_prefill_is_discarded(driver, submit):
    driver.runner.during = lambda: driver.mailbox.put([Abort("r")])
    driver.step(submit("r"))
    assert driver.ending("r") == Aborted("r", generated=0, discarded=1, at=0.0)
    assert driver.loop.idle


@pytest.mark.parametrize("name", ["r", "unknown"])
def test_S28_an_abort_of_an_ended_or_unknown_attempt_is_no_event(driver, submit, name):
    driver.run(submit("r", max_tokens=1))
    assert driver.step(Abort(name), Credit(name, 1)) == []


def test_attempt_ids_match_exactly(driver, submit):
    driver.step(submit("r1", max_tokens=9), submit("r10", max_tokens=9))
    driver.step(Abort("r1"))
    assert driver.ending("r10") is None
    driver.step(Abort("r"))
    assert driver.loop.snapshot()["decoding"] == ["r10"]


def test_a_sequence_without_credit_parks_alone_and_resumes(driver, submit):
    driver.step(submit("slow", max_tokens=5, capacity=2), submit("fast", max_tokens=5))
    driver.step()
    events = driver.step()
    assert Parked("slow", 0.0) in events
    assert driver.loop.snapshot()["parked"] == ["slow"]
    driver.run()
    assert isinstance(driver.ending("fast"), Done)
    assert driver.text("slow") == "bc"
    assert driver.loop.idle
    events = driver.step(Credit("slow", 1))
    assert kinds(events) == ["Resumed", "Delta"]
    driver.run(Credit("slow", 2))
    assert driver.text("slow") == "bcdef"


def test_a_parked_sequence_waits_for_the_low_mark(driver, submit):
    driver.run(submit("r", max_tokens=9, capacity=4, low=1))
    assert not driver.step(Credit("r", 2))
    assert kinds(driver.step(Credit("r", 1))) == ["Resumed", "Delta"]
    assert Resumed("r", 0.0) in driver.events


def test_a_coalescing_receiver_never_parks(driver, submit):
    driver.run(submit("r", max_tokens=9, capacity=1, coalesce=True))
    assert isinstance(driver.ending("r"), Done)


def test_a_loop_whose_slots_are_all_parked_is_idle_though_others_wait(new_driver, submit):
    driver = new_driver(slots=1)
    driver.run(submit("slow", max_tokens=9, capacity=1), submit("waits"))
    assert driver.loop.idle
    assert driver.loop.snapshot()["waiting"] == ["waits"]
    driver.run(Abort("slow"))
    assert isinstance(driver.ending("waits"), Done)


def test_abort_of_a_parked_sequence_frees_its_slot(driver, submit):
    driver.run(submit("r", max_tokens=9, capacity=1))
    driver.step(Abort("r"))
    assert driver.loop.snapshot()["free"] == [0, 1, 2, 3]
    assert driver.ending("r") == Aborted("r", generated=1, discarded=0, at=0.0)


def test_held_tokens_take_no_credit(driver, submit):
    driver.run(submit("r", "a", max_tokens=6, capacity=1, stop=("bcdex",)))
    assert driver.loop.snapshot()["parked"] == ["r"], "b, c, d, e were held, f let all five go in one event"
    assert driver.text("r") == "bcdef"
    assert driver.loop.snapshot()["outstanding"] == {"r": 1}


def test_a_step_whose_token_is_held_is_reported_all_the_same(driver, submit):
    driver.step(submit("r", "a", max_tokens=6, stop=("bcdex",)))
    (stepped,) = driver.step()
    assert (stepped.stats.batch, stepped.stats.running) == (1, 1)


def test_an_aborted_sequence_may_hold_tokens(driver, submit):
    driver.step(submit("r", "a", max_tokens=9, stop=("bcdex",)))
    driver.step()
    driver.step(Abort("r"))
    assert driver.text("r") == ""
    assert driver.ending("r").generated == 2


def test_the_model_is_done_while_its_reader_has_stopped(driver, submit):
    """200 events are queued and not one credit came back: the slot is free at once all the same."""
    driver = type(driver)(max_len=256)
    driver.run(submit("r", max_tokens=200, capacity=256, ignore_eos=True))
    assert len([event for event in driver.events if isinstance(event, Delta)]) == 200
    assert driver.ending("r").reason == "length"
    assert driver.loop.snapshot()["free"] == [0, 1, 2, 3]
    assert driver.step(Credit("r", 200)) == []


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"prompt": ""}, "prompt must hold"),
        ({"prompt": "a" * 60}, "65 positions"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"min_tokens": 9}, "min_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"stop": ("",)}, "stop strings"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": 2, "low": 2}, "low"),
        ({"prompt": "~"}, "prompt tokens"),
    ],
)
def test_a_submit_that_cannot_run_fails_with_the_field(driver, submit, changes, part):
    (failed, _) = driver.step(submit("r", **changes))
    assert isinstance(failed, Failed)
    assert failed.invalid
    assert part in failed.message
    driver.run(submit("next"))
    assert isinstance(driver.ending("next"), Done)


def test_a_second_submit_of_a_live_id_is_refused(driver, submit):
    driver.step(submit("r", max_tokens=2))
    events = driver.step(submit("r", "x"))
    assert kinds(events) == ["Failed", "Delta", "Done"]
    assert "first submit goes on" in events[0].message


def test_an_id_may_come_again_after_its_ending(driver, submit):
    driver.run(submit("r", max_tokens=1))
    assert kinds(driver.run(submit("r", max_tokens=1))) == ["Started", "Delta", "Done"]


def test_S29_a_fault_in_one_prefill_ends_that_sequence_alone(driver, submit, caplog):
    driver.runner.broken_slots = {1}
    driver.run(submit("a", max_tokens=3), submit("b", max_tokens=3), submit("c", max_tokens=3))
    assert isinstance(driver.ending("b"), Failed)
    assert "slot 1 is broken" in driver.ending("b").message
    assert not driver.ending("b").invalid
    assert driver.text("a") == driver.text("c") == "bcd"
    assert caplog.records[0].levelno == logging.ERROR


def test_S29_a_fault_in_one_text_ends_that_sequence_alone(driver, submit, monkeypatch):
    driver.step(submit("a", max_tokens=3), submit("b", max_tokens=3))
    victim, push = driver.loop._roster.live["a"].text, Detokenizer.push

    def explode(self, token, check_stop):
        if self is victim:
            raise RuntimeError("no text today")
        return push(self, token, check_stop)

    monkeypatch.setattr(Detokenizer, "push", explode)
    driver.run()
    assert driver.ending("a") == Failed("a", "RuntimeError: no text today", 0.0)
    assert driver.text("b") == "bcd"


def test_S29_a_fault_of_the_step_ends_its_batch_and_the_engine_lives(driver, submit):
    driver.step(submit("a", max_tokens=9), submit("b", max_tokens=9))
    driver.runner.broken = True
    driver.step(submit("c", max_tokens=3))
    assert isinstance(driver.ending("a"), Failed)
    assert isinstance(driver.ending("b"), Failed)
    assert driver.loop.snapshot()["free"] == [0, 1, 3]
    driver.runner.broken = False
    driver.run(submit("d", max_tokens=3))
    assert isinstance(driver.ending("c"), Done)
    assert driver.text("d") == "bcd"


def test_S29_a_fault_in_choosing_ends_the_batch_and_the_engine_lives(driver, submit, monkeypatch):
    def explode(*_):
        raise RuntimeError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "choose", explode)
        driver.run(submit("a", temperature=1.0), submit("b"))
    assert driver.ending("a") == Failed("a", "RuntimeError: no luck", 0.0)
    driver.run(submit("c", max_tokens=3))
    assert driver.text("c") == "bcd"


def test_more_credit_than_was_lent_ends_that_sequence_alone(driver, submit):
    driver.step(submit("a", max_tokens=3, capacity=5), submit("b", max_tokens=3))
    driver.run(Credit("a", 7))
    assert isinstance(driver.ending("a"), Failed)
    assert driver.text("b") == "bcd"


def test_stop_aborts_all_and_refuses_what_comes_later(new_driver, submit):
    driver = new_driver(slots=1)
    driver.step(submit("run"), submit("wait"))
    driver.step(Stop(), submit("late"))
    assert driver.loop.stopped
    assert isinstance(driver.ending("run"), Aborted)
    assert isinstance(driver.ending("wait"), Aborted)
    assert not driver.ending("late").invalid


def test_ping_is_answered_with_the_engine_clock(driver):
    events = driver.step(Ping(3.5))
    assert events[0] == Pong(3.5, 0.0)


def test_an_idle_step_is_no_event(driver):
    assert driver.step() == []
    assert driver.loop.idle
