import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.endings import ENDINGS, Reason
from lab.core.errors import CountError
from lab.core.record import final_usage
from lab.core.tokens import (
    TokenCounts,
    Usage,
    inter_token_gaps,
    last_usage,
    tpot,
    ttft,
    usage_chunk,
    wants_usage,
)

# -- counts


def test_counts_of_one_run():
    counts = TokenCounts(proposed=8, accepted=5, generated=9, sent=4, delivered=3, trimmed=2, held_back=1)
    counts.check(sampling_steps=4)
    counts.held_back, counts.dropped = 0, 3
    counts.check_final()


@pytest.mark.parametrize(
    ("counts", "rule"),
    [
        (TokenCounts(proposed=1, accepted=2, generated=2), "accepted <= proposed"),
        (TokenCounts(proposed=3, accepted=3, generated=2), "accepted <= generated"),
        (TokenCounts(generated=3, sent=2, delivered=3), "delivered <= sent"),
        (TokenCounts(generated=3, sent=4), "sent \\+ dropped"),
        (TokenCounts(generated=3, sent=3, dropped=1), "sent \\+ dropped"),
        (TokenCounts(generated=3, sent=3, trimmed=1), "sent \\+ dropped"),
        (TokenCounts(generated=3, sent=3, held_back=1), "sent \\+ dropped"),
        (TokenCounts(generated=-1), "generated is -1"),
        (TokenCounts(delivered=-1), "delivered is -1"),
        (TokenCounts(discarded=-1), "discarded is -1"),
    ],
)
def test_counts_that_contradict_each_other(counts, rule):
    with pytest.raises(CountError, match=rule):
        counts.check()
    with pytest.raises(CountError, match=rule):
        counts.check_final()


def test_more_generated_than_proposed_is_right():
    TokenCounts(proposed=0, generated=5, sent=5).check(sampling_steps=5)
    TokenCounts(proposed=4, accepted=4, generated=5, sent=5).check(sampling_steps=1)
    with pytest.raises(CountError, match="4 sampling steps"):
        TokenCounts(proposed=4, accepted=4, generated=5, sent=5).check(sampling_steps=4)


def test_discarded_tokens_were_never_generated():
    TokenCounts(generated=2, sent=2, discarded=9).check_final()


@pytest.mark.parametrize(
    "counts",
    [TokenCounts(generated=3, sent=2), TokenCounts(generated=3, sent=2, held_back=1)],
)
def test_at_the_end_every_token_is_accounted_for(counts):
    counts.check()
    with pytest.raises(CountError):
        counts.check_final()


@given(st.lists(st.integers(0, 6), min_size=7, max_size=7))
def test_check_agrees_with_the_rules_as_the_design_states_them(numbers):
    counts = TokenCounts(*numbers)
    right = (
        counts.accepted <= counts.proposed
        and counts.accepted <= counts.generated
        and counts.delivered <= counts.sent
        and counts.sent + counts.dropped + counts.trimmed <= counts.generated
    )
    try:
        counts.check()
    except CountError:
        assert not right
    else:
        assert right


# -- usage


def test_usage_in_openai_shape():
    assert Usage(10, 4).to_openai() == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    assert Usage(10, 4, cached_tokens=0, reasoning_tokens=3).to_openai() == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }


@pytest.mark.parametrize(
    "numbers", [(-1, 0), (0, -1), (3, 1, 4), (3, 1, -1), (3, 1, None, 2), (3, 1, None, -1)]
)
def test_parts_are_not_larger_than_their_whole(numbers):
    with pytest.raises(CountError):
        Usage(*numbers)


OPTIONS = {
    "none": None,
    "empty": {},
    "false": {"include_usage": False},
    "null": {"include_usage": None},
    "true": {"include_usage": True},
    "true and more": {"include_usage": True, "include_obfuscation": False},
}
ACCEPTED = [reason for reason in Reason if not ENDINGS[reason].refusal]


@pytest.mark.parametrize(("name", "reason"), list(itertools.product(OPTIONS, ACCEPTED)))
def test_S67_usage_chunk_for_every_option_and_ending(name, reason):
    counts = TokenCounts(generated=5, sent=4, trimmed=1)
    chunk = usage_chunk(OPTIONS[name], final_usage(counts, reason, prompt_tokens=3))
    if name.startswith("true") and reason in (Reason.STOP, Reason.LENGTH):
        assert chunk == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    else:
        assert chunk is None
    assert wants_usage(OPTIONS[name]) is name.startswith("true")


@pytest.mark.parametrize("reason", [reason for reason in Reason if not ENDINGS[reason].natural])
def test_T08_an_interrupted_stream_has_no_usage_rather_than_zeros(reason):
    assert final_usage(TokenCounts(), reason, prompt_tokens=3) is None
    assert final_usage(TokenCounts(generated=9, sent=9), reason, prompt_tokens=3) is None


def test_usage_needs_a_known_prompt():
    assert final_usage(TokenCounts(), Reason.STOP, prompt_tokens=None) is None
    assert final_usage(TokenCounts(), Reason.STOP, prompt_tokens=0) == Usage(0, 0)


def test_truncated_means_ended_by_length():
    assert final_usage(TokenCounts(), Reason.LENGTH, 3).truncated is True
    assert final_usage(TokenCounts(), Reason.STOP, 3).truncated is False


def chunk(*usage, finish=None):
    choices = [{"delta": {}, "finish_reason": finish}]
    if not usage:
        return {"choices": choices}
    prompt, completion = usage
    return {"choices": choices, "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


@pytest.mark.parametrize(
    ("chunks", "usage"),
    [
        ([], None),
        ([chunk(), chunk(finish="stop")], None),
        ([{"choices": [], "usage": None}], None),
        ([chunk(), {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}], Usage(3, 2)),
        ([chunk(3, 1), chunk(3, 2), chunk(3, 3, finish="stop")], Usage(3, 3)),
        ([chunk(3, 2), {"choices": [], "usage": None}, chunk()], Usage(3, 2)),
        ([chunk(0, 0), chunk(), chunk(3, 2, finish="length")], Usage(3, 2, truncated=True)),
        (
            [chunk(finish="length"), {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}],
            Usage(1, 1, truncated=True),
        ),
        (
            [
                {
                    "usage": {
                        "prompt_tokens": 3,
                        "completion_tokens": 2,
                        "prompt_tokens_details": {"cached_tokens": 1},
                        "completion_tokens_details": {"reasoning_tokens": 0},
                    }
                }
            ],
            Usage(3, 2, 1, 0),
        ),
        (
            [{"usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {}}}],
            Usage(3, 2),
        ),
    ],
)
def test_the_last_usage_of_a_stream_counts_once(chunks, usage):
    assert last_usage(iter(chunks)) == usage


@pytest.mark.parametrize(
    "usage",
    [
        {},
        [],
        "3",
        {"prompt_tokens": 3},
        {"prompt_tokens": "3", "completion_tokens": 2},
        {"prompt_tokens": True, "completion_tokens": 2},
        {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": 1},
        {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}},
    ],
)
def test_a_usage_that_is_none(usage):
    with pytest.raises(CountError):
        last_usage([{"choices": [], "usage": usage}])


# -- latency


def test_ttft_and_tpot():
    assert ttft(10.0, 12.5) == 2.5
    assert ttft(10.0, None) is None
    assert tpot(12.0, 20.0, 5) == 2.0
    assert tpot(12.0, 20.0, 5, parked=4.0) == 1.0


@pytest.mark.parametrize("stamps", [(1.0, 1.0, 1), (None, None, 0), (1.0, None, 2), (None, 2.0, 2)])
def test_tpot_of_one_token_is_unknown_and_not_zero(stamps):
    assert tpot(*stamps) is None


def test_S64_the_first_token_is_not_an_interval():
    arrived, stamps = 0.0, [5.0, 5.5, 6.0, 7.0]
    gaps = inter_token_gaps(stamps)
    assert gaps == [0.5, 0.5, 1.0]
    assert ttft(arrived, stamps[0]) not in gaps
    assert sum(gaps) / len(gaps) == pytest.approx(tpot(stamps[0], stamps[-1], len(stamps)))
    assert inter_token_gaps(stamps[:1]) == inter_token_gaps([]) == []
