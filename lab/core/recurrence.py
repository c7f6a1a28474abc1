"""The length of a send queue as a recurrence: the arithmetic under the trace, without tokens or endings."""

from collections.abc import Sequence

from lab.core.send_queue import Credits
from lab.core.trace_settings import check_drain


def queue_lengths(capacity: int | None, drain: Sequence[int], ticks: int) -> list[int]:
    """The queue's length at the end of each of ``ticks`` ticks of an endless text.

    ``Q' = max(0, Q - d) + g``; bounded, ``g`` is 1 only if ``max(0, Q - d) < C``, else 0. Without a
    bound ``g`` is always 1. After the pattern ``d`` is 0.

    :raises CapacityError: for a capacity below 1. :raises TraceError: for a drain that is no pattern
    """
    Credits(capacity)
    check_drain(drain)
    lengths: list[int] = []
    length = 0
    for tick in range(ticks):
        length = max(0, length - (drain[tick] if tick < len(drain) else 0))
        length += 1 if capacity is None or length < capacity else 0
        lengths.append(length)
    return lengths
