"""Answers in another style: numpy, fractions and lists say the same as plain numbers and tuples."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from lab.course.registry import get
from lab.course.values import plain
from lab.course.verdict import Outcome


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.array([0, 2]), [0, 2]),
        ((np.int64(1), [np.int8(2)]), (1, [2])),
        (Fraction(3, 5), 0.6),
        (Decimal("0.25"), 0.25),
        ("text", "text"),
        (None, None),
    ],
)
def test_a_value_stands_for_a_plain_one(value: object, expected: object) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


def tick_of_numpy(waiting, drain, capacity):
    sent = np.minimum(drain, waiting)
    made = np.int64(waiting - sent < capacity)
    return [sent, made, waiting - sent + made]


def waste_as_a_fraction(generated, sent):
    return Fraction(len(generated) - len(sent), len(generated)) if generated else None


@pytest.mark.parametrize(
    ("exercise", "name", "answer"),
    [("01-1", "tick", tick_of_numpy), ("01-3", "waste", waste_as_a_fraction)],
)
def test_a_right_answer_in_another_style_passes(exercise: str, name: str, answer: object) -> None:
    verdict = get(exercise).check({name: answer})
    assert verdict.outcome is Outcome.PASSED, verdict


def test_01_2_a_table_of_the_first_three_capacities_is_not_a_search() -> None:
    table = {1: (0, 0, 2), 2: (0, 0, 0, 3), 3: (0, 0, 0, 0, 2, 3)}
    verdict = get("01-2").check({"smallest_drain": lambda capacity: table.get(capacity, ())})
    assert verdict.outcome is Outcome.WRONG
