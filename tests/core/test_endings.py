import dataclasses

import pytest

from lab.core.endings import ENDINGS, AfterFirstByte, Breaker, Ending, Outcome, Reason, Retry, Slo

TABLE = """
stop               ok                 200 -  finish_reason judged                 success not_needed
length             length             200 -  finish_reason judged                 success not_needed
client_cancel      client_cancel      499 -  error         excluded_unless_missed neutral no
client_disconnect  client_disconnect  499 -  nothing       excluded_unless_missed neutral no
queue_timeout      timeout            503 RA error         bad                    neutral if_time_remains
ttft_timeout       timeout            504 -  error         bad                    neutral if_time_remains
idle_timeout       timeout            504 -  error         bad                    failure if_time_remains
overall_deadline   timeout            504 -  error         bad                    neutral never
slow_consumer      slow_consumer      -   -  abort         excluded_shown         neutral no
drain              drain              503 RA error         bad                    neutral yes
backend_error      error              500 -  error         bad                    failure no
worker_lost        error              502 -  error         bad                    failure yes
lease_expired      orphaned           -   -  -             excluded_shown         neutral no
overloaded         rejected           503 RA -             bad                    neutral yes
draining           rejected           503 RA -             bad                    neutral yes
invalid            rejected           400 -  -             excluded               success no
too_long           rejected           400 -  -             excluded               success no
over_budget        rejected           429 RA -             excluded               neutral no
rate_limited       rejected           429 RA -             excluded               neutral no
"""


def row(ending: Ending) -> list[str]:
    return [
        ending.reason.value,
        ending.outcome.value,
        str(ending.status or "-"),
        "RA" if ending.retry_after else "-",
        "-" if ending.after is None else ending.after.value,
        ending.slo.value,
        ending.breaker.value,
        ending.retry.value,
    ]


def test_the_table_is_the_one_of_the_design():
    assert [row(ENDINGS[reason]) for reason in Reason] == [
        line.split() for line in TABLE.strip().splitlines()
    ]


def test_every_reason_has_a_row_and_no_row_is_extra():
    assert set(ENDINGS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_every_column_is_filled(reason):
    types = {
        "reason": Reason,
        "outcome": Outcome,
        "status": int | None,
        "retry_after": bool,
        "after": AfterFirstByte | None,
        "slo": Slo,
        "breaker": Breaker,
        "retry": Retry,
    }
    ending = ENDINGS[reason]
    assert [field.name for field in dataclasses.fields(ending)] == list(types)
    assert ending.reason is reason
    for name, expected in types.items():
        assert isinstance(getattr(ending, name), expected), name


@pytest.mark.parametrize("enum", [Outcome, AfterFirstByte, Slo, Breaker, Retry])
def test_no_value_of_a_column_is_dead(enum):
    used = {
        getattr(ending, field.name) for ending in ENDINGS.values() for field in dataclasses.fields(ending)
    }
    assert set(enum) <= used


def test_natural_and_refusal():
    assert [reason for reason in Reason if ENDINGS[reason].natural] == [Reason.STOP, Reason.LENGTH]
    assert [reason for reason in Reason if ENDINGS[reason].refusal] == [
        Reason.OVERLOADED,
        Reason.DRAINING,
        Reason.INVALID,
        Reason.TOO_LONG,
        Reason.OVER_BUDGET,
        Reason.RATE_LIMITED,
    ]


@pytest.mark.parametrize("reason", Reason)
def test_what_the_columns_must_agree_on(reason):
    ending = ENDINGS[reason]
    if ending.retry_after:
        assert ending.status in (429, 503), "Retry-After belongs to these two"
    if ending.status == 503:
        assert ending.retry_after, "a 503 without Retry-After invites a storm"
    if ending.refusal:
        assert ending.after is None, "a refusal comes before the first byte"
    if ending.breaker is Breaker.FAILURE:
        assert ending.slo is Slo.BAD, "what blames the endpoint is never excused"


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        ENDINGS[Reason.STOP] = ENDINGS[Reason.LENGTH]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ENDINGS[Reason.STOP].status = 500
