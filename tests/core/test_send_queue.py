import pytest

from lab.core.errors import CapacityError
from lab.core.send_queue import Credits, SendQueue


def test_parks_at_the_high_mark_and_is_armed_once_at_the_low():
    credit = Credits(3, low=1)
    assert [credit.reserve() for _ in range(3)] == [True, True, True]
    assert credit.parked is False
    assert credit.reserve() is False
    assert credit.parked is True
    assert credit.give_back(1) is False
    assert credit.reserve() is False
    assert credit.give_back(1) is True
    assert credit.parked is False
    assert credit.give_back(1) is False
    assert credit.outstanding == 0


def test_low_is_capacity_minus_one_unless_said_otherwise():
    assert Credits(4).low == 3
    assert Credits(None).low is None


def test_unbounded_is_never_parked():
    credit = Credits(None)
    assert all(credit.reserve() for _ in range(1000))
    assert (credit.outstanding, credit.parked) == (1000, False)
    assert credit.give_back(1000) is False


@pytest.mark.parametrize(
    ("capacity", "low"),
    [
        (0, None),
        (-1, None),
        (True, None),
        (2.0, None),
        (3, 3),
        (3, -1),
        (1, 1),
        (3, True),
        (3, 1.0),
        (None, 0),
    ],
)
def test_marks_that_mean_nothing(capacity, low):
    with pytest.raises(CapacityError):
        Credits(capacity, low)


@pytest.mark.parametrize("n", [-1, 3])
def test_more_back_than_lent(n):
    credit = Credits(2)
    credit.reserve()
    credit.reserve()
    before = credit.snapshot()
    with pytest.raises(CapacityError):
        credit.give_back(n)
    assert credit.snapshot() == before


def test_nothing_back_changes_nothing():
    credit = Credits(1)
    credit.reserve()
    credit.reserve()
    assert credit.give_back(0) is False
    assert credit.snapshot() == {"capacity": 1, "low": 0, "outstanding": 1, "parked": True}


def test_a_cancelled_reserve_is_free_again_and_re_arms():
    credit = Credits(1)
    assert credit.reserve()
    assert not credit.reserve()
    assert credit.cancel() is True, "no credit would ever come back to re-arm it"
    assert credit.reserve()
    credit.cancel()
    with pytest.raises(CapacityError):
        credit.cancel()


def test_queue_is_first_in_first_out_and_counts_bytes():
    queue = SendQueue(3)
    for item, size in (("a", 5), ("b", 0), ("c", 7)):
        queue.put(item, size)
    assert (len(queue), queue.bytes, queue.high_water) == (3, 12, 3)
    assert queue.take() == "a"
    assert (len(queue), queue.bytes, queue.high_water) == (2, 7, 3)
    assert queue.drop_all() == ["b", "c"]
    assert queue.snapshot() == {"events": 0, "bytes": 0, "high_water": 3}
    assert queue.take() is None
    assert queue.drop_all() == []


def test_a_put_beyond_a_bound_raises_and_changes_nothing():
    queue = SendQueue(2, max_bytes=10)
    queue.put("a", 4)
    for size in (7, -1):
        with pytest.raises(CapacityError):
            queue.put("x", size)
    queue.put("b", 6)
    with pytest.raises(CapacityError):
        queue.put("x", 0)
    assert (queue.bytes, queue.drop_all()) == (10, ["a", "b"])


@pytest.mark.parametrize("bounds", [(0,), (-1,), (True,), (1.5,), (1, 0), (1, -1), (None, 0)])
def test_bounds_that_mean_nothing(bounds):
    with pytest.raises(CapacityError):
        SendQueue(*bounds)


def test_an_unbounded_queue_still_knows_its_high_water():
    queue = SendQueue(None)
    for number in range(50):
        queue.put(number, 1)
    for _ in range(10):
        queue.take()
    queue.put(50, 1)
    assert (len(queue), queue.high_water) == (41, 50)


def test_reprs_say_where_they_stand():
    credit, queue = Credits(1), SendQueue(4)
    credit.reserve()
    credit.reserve()
    queue.put("a", 5)
    assert repr(credit) == "Credits(1 of 1, low 0, parked)"
    assert repr(queue) == "SendQueue(1 of 4, 5 bytes)"
    assert (repr(Credits(None)), repr(SendQueue(None))) == (
        "Credits(0 unbounded)",
        "SendQueue(0 unbounded, 0 bytes)",
    )
