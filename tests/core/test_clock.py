import math

import pytest

from lab.core.clock import Clock, MonotonicClock, VirtualClock
from lab.core.errors import CoreError, SettingsError


def test_a_virtual_clock_moves_only_by_hand():
    clock: Clock = VirtualClock(5)
    assert (clock.now(), clock.now()) == (5.0, 5.0)
    assert clock.advance(2.5) == 7.5
    assert clock.advance(0) == 7.5
    assert repr(clock) == "VirtualClock(7.5)"


@pytest.mark.parametrize("seconds", [-1e-9, -1, math.nan, math.inf])
def test_time_does_not_run_back(seconds):
    clock = VirtualClock()
    with pytest.raises(SettingsError):
        clock.advance(seconds)
    assert clock.now() == 0.0


@pytest.mark.parametrize("start", [math.nan, math.inf, -math.inf])
def test_a_clock_starts_somewhere(start):
    with pytest.raises(CoreError):
        VirtualClock(start)


def test_the_real_clock_never_goes_back():
    clock = MonotonicClock()
    stamps = [clock.now() for _ in range(1000)]
    assert stamps == sorted(stamps)
