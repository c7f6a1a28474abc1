"""The exercises of chapter 01, one slow client. Its quiz stands in `quiz01`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from lab.core.grid import all_patterns, run_grid
from lab.core.trace import TraceSettings, run_trace
from lab.core.trace_settings import MAX_DRAIN, WORKED_DRAIN
from lab.course.calls import call
from lab.course.exercise import Exercise, WrongAnswer
from lab.course.exercises.quiz01 import QUIZ
from lab.course.verdict import Verdict, passed, wrong

# --- 01-1 -----------------------------------------------------------------------------------------


def _check_tick(names: Mapping[str, Any]) -> Verdict:
    """All small queues, the smallest first."""
    cases = [
        (waiting, drain, capacity)
        for capacity in range(1, 5)
        for waiting in range(capacity + 1)
        for drain in range(MAX_DRAIN + 1)
    ]
    for case in sorted(cases, key=sum):
        given = call(names["tick"], *case)
        problem = _tick_problem(given, *case)
        if problem:
            waiting, drain, capacity = case
            shown = f"tick(waiting={waiting}, drain={drain}, capacity={capacity}) gives {given!r}"
            return wrong(problem, shown)
    return passed()


def _tick_problem(given: object, waiting: int, drain: int, capacity: int) -> str | None:
    """What is wrong with one answer, in the order in which a reader would find it."""
    if not (
        isinstance(given, tuple | list) and len(given) == 3 and all(isinstance(value, int) for value in given)
    ):
        return "it must return three whole numbers: sent, generated, waiting"
    sent, generated, left = given
    if sent > waiting:
        return "the reader can only get what waited before this tick"
    if sent != min(drain, waiting):
        return "the reader did not get all that it could take"
    if generated not in (0, 1):
        return "a tick generates one token or none"
    if left != waiting - sent + generated:
        return "tokens were lost or made up: waiting must be what was there, less sent, plus generated"
    if left > capacity:
        return "the queue outgrew its capacity"
    if generated != int(waiting - sent < capacity):
        return "the reader took first, so there was room for a token"
    return None


TICK = Exercise(
    id="01-1",
    title="One tick of a bounded queue",
    names=("tick",),
    stub='''\
def tick(waiting, drain, capacity):
    """One tick of a bounded queue: the reader takes, then the model generates if there is room.

    waiting   tokens in the queue before the tick
    drain     how many tokens the reader could take in this tick
    capacity  how many tokens may wait after the tick

    Returns (sent, generated, waiting): tokens the reader got, 0 or 1, tokens that wait now.
    About four lines.
    """
    raise NotImplementedError
''',
    solution="""\
def tick(waiting, drain, capacity):
    sent = min(drain, waiting)
    waiting -= sent
    generated = 1 if waiting < capacity else 0
    return sent, generated, waiting + generated
""",
    wrong=(
        WrongAnswer(
            "generates before the reader takes",
            "def tick(waiting, drain, capacity):\n"
            "    generated = int(waiting < capacity)\n"
            "    sent = min(drain, waiting + generated)\n"
            "    return sent, generated, waiting + generated - sent\n",
            "what waited before this tick",
        ),
        WrongAnswer(
            "looks at the bound before the reader takes",
            "def tick(waiting, drain, capacity):\n"
            "    generated = int(waiting < capacity)\n"
            "    sent = min(drain, waiting)\n"
            "    return sent, generated, waiting - sent + generated\n",
            "there was room for a token",
        ),
        WrongAnswer(
            "goes on generating and cuts the queue off",
            "def tick(waiting, drain, capacity):\n"
            "    sent = min(drain, waiting)\n"
            "    return sent, 1, min(capacity, waiting - sent + 1)\n",
            "lost or made up",
        ),
        WrongAnswer(
            "lets the reader take more than there is",
            "def tick(waiting, drain, capacity):\n"
            "    waiting -= drain\n"
            "    generated = int(waiting < capacity)\n"
            "    return drain, generated, waiting + generated\n",
            "what waited before this tick",
        ),
    ),
    hints=(
        "The reader moves first. How much can it take from an empty queue?",
        "After the reader took, compare what is left with the capacity. That is the gate.",
        "The recurrence: rest = max(0, waiting - drain); a token is generated only if rest < capacity.",
    ),
    check=_check_tick,
    minutes=8,
)

# --- 01-2 -----------------------------------------------------------------------------------------


def _check_smallest_drain(names: Mapping[str, Any]) -> Verdict:
    """Against an exhaustive search. With seven tokens no reader of up to eight ticks hurts a queue of five."""
    for capacity in (1, 2, 3, 4):
        given = call(names["smallest_drain"], capacity)
        problem = _drain_problem(given, capacity)
        if problem:
            return wrong(problem, f"smallest_drain({capacity}) gives {given!r}")
    return passed()


def _drain_problem(given: object, capacity: int) -> str | None:
    if not isinstance(given, tuple | list) or not given:
        return "it must return a pattern: a tuple of numbers from 0 to 3"
    if not all(_is_whole(take) and 0 <= take <= MAX_DRAIN for take in given):
        return "the reader takes 0, 1, 2 or 3 tokens a tick"
    if len(given) > 1000:
        return "a much shorter pattern does it"
    bounded, unbounded = (_sent(limit, tuple(given)) for limit in (capacity, None))
    if bounded >= unbounded:
        return f"with this pattern both queues send {bounded}"
    best = _first_pattern(capacity)
    if len(given) > len(best):
        return f"a pattern of {len(best)} ticks does it too"
    if tuple(given) != best:
        return "a pattern as long as this one comes earlier in lexicographic order"
    return None


def _sent(capacity: int | None, drain: tuple[int, ...]) -> int:
    return len(run_trace(TraceSettings(capacity, drain, deadline=None)).sent)


def _first_pattern(capacity: int) -> tuple[int, ...]:
    """The shortest pattern, and among those the first, for which the bounded queue sends fewer."""
    for length in range(1, 9):
        patterns = all_patterns(length)
        grid = run_grid([capacity, None], [None], patterns)
        fewer = grid.sent[0, 0] < grid.sent[1, 0]
        if fewer.any():
            return tuple(patterns[fewer.argmax()].tolist())
    raise ValueError(f"no pattern of up to 8 ticks hurts a queue of {capacity}")


SMALLEST_DRAIN = Exercise(
    id="01-2",
    title="The reader that a small buffer hurts",
    names=("smallest_drain",),
    stub='''\
def smallest_drain(capacity):
    """The smallest drain pattern with which the bounded queue sends fewer tokens than the unbounded one.

    A pattern is a tuple; each tick the reader takes 0, 1, 2 or 3 tokens. There is no deadline: the run ends
    when the pattern does. Smallest: the shortest, and among those the first in lexicographic order.

    run_trace(TraceSettings(capacity=..., drain=..., deadline=None)).sent tells what was sent;
    capacity=None is the unbounded queue. About six lines.
    """
    raise NotImplementedError
''',
    solution="""\
def smallest_drain(capacity):
    from itertools import count, product

    for length in count(1):
        for drain in product(range(4), repeat=length):
            bounded = run_trace(TraceSettings(capacity=capacity, drain=drain, deadline=None))
            unbounded = run_trace(TraceSettings(capacity=None, drain=drain, deadline=None))
            if len(bounded.sent) < len(unbounded.sent):
                return drain
""",
    wrong=(
        WrongAnswer(
            "a table of the first three",
            "def smallest_drain(capacity):\n"
            "    table = {1: (0, 0, 2), 2: (0, 0, 0, 3), 3: (0, 0, 0, 0, 2, 3)}\n"
            "    return table.get(capacity, (0, 0, 0, 0, 0, 0, 3, 3))\n",
            "a pattern of 7 ticks does it too",
        ),
        WrongAnswer(
            "takes the slow reader of the worked example",
            f"def smallest_drain(capacity):\n    return {WORKED_DRAIN!r}\n",
            "both queues send 2",
        ),
        WrongAnswer(
            "waits for long and then takes as much as it can",
            "def smallest_drain(capacity):\n    return (0,) * (capacity + 2) + (3, 3)\n",
            "ticks does it too",
        ),
        WrongAnswer(
            "finds a shortest pattern, but not the first of them",
            "def smallest_drain(capacity):\n"
            "    return {1: (0, 0, 2), 2: (0, 0, 0, 3), 3: (0, 0, 0, 0, 3, 2)}[capacity]\n",
            "comes earlier in lexicographic order",
        ),
        WrongAnswer(
            "searches only readers that are never faster than the generator",
            "def smallest_drain(capacity):\n"
            "    from itertools import product\n"
            "    for drain in product(range(2), repeat=8):\n"
            "        if drain.count(1) > 8:\n"
            "            return drain\n",
            "must return a pattern",
        ),
    ),
    hints=(
        "With a drain of 0 or 1 the bounded queue never sends fewer. So the reader must be bursty.",
        "The queues differ in what waits, and only after the bounded one has paused. How long must the reader "
        "wait for that? And then it must take more than the bounded queue holds.",
        "Try all patterns: itertools.product(range(4), repeat=length) gives them in lexicographic order. "
        "Start with length 1.",
    ),
    check=_check_smallest_drain,
    minutes=12,
)

# --- 01-3 -----------------------------------------------------------------------------------------


def _check_waste(names: Mapping[str, Any]) -> Verdict:
    """Texts that repeat tokens, runs that made nothing, and one that lost nothing."""
    cases = (("", ""), ("A", ""), ("A", "A"), ("aa", "a"), ("ABC", "AC"), ("ABCDE", "AB"), ("ABCDEFG", "AB"))
    for generated, sent in cases:
        given = call(names["waste"], generated, sent)
        shown = f"waste({generated!r}, {sent!r}) gives {given!r}"
        if not generated:
            if given is not None:
                return wrong(
                    "nothing was generated, so there is no share to speak of: None, not a number", shown
                )
            continue
        expected = (len(generated) - len(sent)) / len(generated)
        if isinstance(given, bool) or not isinstance(given, int | float) or math.isnan(given):
            return wrong("it must return a number when something was generated", shown)
        if not math.isclose(given, expected, abs_tol=1e-9):
            return wrong(_waste_reason(generated, sent, float(given)), shown)
    return passed()


def _waste_reason(generated: str, sent: str, given: float) -> str:
    if math.isclose(given, len(sent) / len(generated)):
        return "that is the share that was sent; waste is the rest"
    if len(set(generated)) < len(generated):
        return "the same token may occur twice: count positions, not different tokens"
    return f"it should be {len(generated) - len(sent)} of {len(generated)} tokens"


WASTE = Exercise(
    id="01-3",
    title="What nobody received",
    names=("waste",),
    stub='''\
def waste(generated, sent):
    """The share of the generated tokens that were not sent, as a number from 0 to 1.

    Both are strings, one character a token: waste("ABCDE", "AB") is 3/5.
    None when nothing was generated: unknown is not zero. About three lines.
    """
    raise NotImplementedError
''',
    solution="""\
def waste(generated, sent):
    if not generated:
        return None
    return (len(generated) - len(sent)) / len(generated)
""",
    wrong=(
        WrongAnswer(
            "calls it zero when nothing was generated",
            "def waste(generated, sent):\n"
            "    return (len(generated) - len(sent)) / len(generated) if generated else 0\n",
            "None, not a number",
        ),
        WrongAnswer(
            "counts different tokens",
            "def waste(generated, sent):\n"
            "    if not generated:\n        return None\n"
            "    return len(set(generated) - set(sent)) / len(generated)\n",
            "count positions",
        ),
        WrongAnswer(
            "returns the share that arrived",
            "def waste(generated, sent):\n    return len(sent) / len(generated) if generated else None\n",
            "share that was sent",
        ),
    ),
    hints=(
        "At the end of every run: generated = sent + dropped. You know two of the three.",
        "What would you divide by when nothing was generated? Nothing: return None.",
    ),
    check=_check_waste,
    minutes=5,
)

# --- 01-4 -----------------------------------------------------------------------------------------


def _check_enough(names: Mapping[str, Any]) -> Verdict:
    """Every reader of up to four ticks, then a few longer ones."""
    for drain in _readers():
        grid = run_grid([*range(1, 8), None], [None], [drain])
        same = grid.sent[:-1, 0, 0] == grid.sent[-1, 0, 0]
        expected = int(same.argmax()) + 1
        given = call(names["enough"], drain)
        if not _is_whole(given) or given != expected:
            reason = (
                "a smaller queue sends as many" if _is_more(given, expected) else "this queue sends fewer"
            )
            if not _is_whole(given) or given < 1:
                reason = "it must return a capacity: a whole number of at least 1"
            return wrong(reason, f"enough({drain!r}) gives {given!r}, the smallest is {expected}")
    return passed()


def _readers() -> Iterator[tuple[int, ...]]:
    for length in range(1, 5):
        yield from product(range(MAX_DRAIN + 1), repeat=length)
    yield from ((0, 0, 0, 0, 2, 3), (0, 0, 0, 0, 0, 3, 3), (0, 0, 0, 1, 0, 0, 3, 3), WORKED_DRAIN)


def _is_more(given: object, expected: int) -> bool:
    return isinstance(given, int) and given > expected


ENOUGH = Exercise(
    id="01-4",
    title="How large is large enough?",
    names=("enough",),
    stub='''\
def enough(drain):
    """The smallest capacity with which this reader gets as many tokens as from an unbounded queue.

    drain is a pattern as before; there is no deadline. Use run_trace as in exercise 01-2.
    About five lines.
    """
    raise NotImplementedError
''',
    solution="""\
def enough(drain):
    from itertools import count

    most = len(run_trace(TraceSettings(capacity=None, drain=drain, deadline=None)).sent)
    for capacity in count(1):
        if len(run_trace(TraceSettings(capacity=capacity, drain=drain, deadline=None)).sent) == most:
            return capacity
""",
    wrong=(
        WrongAnswer(
            "takes the longest that the unbounded queue ever was",
            "def enough(drain):\n"
            "    return run_trace(TraceSettings(capacity=None, drain=drain, deadline=None)).high_water\n",
            "a smaller queue sends as many",
        ),
        WrongAnswer(
            "takes the largest burst of the reader",
            "def enough(drain):\n    return max(1, max(drain))\n",
            "a smaller queue sends as many",
        ),
        WrongAnswer(
            "says that one place is always enough",
            "def enough(drain):\n    return 1\n",
            "this queue sends fewer",
        ),
    ),
    hints=(
        "First find out how many tokens the unbounded queue sends to this reader.",
        "Then try capacity 1, 2, 3 and so on, and stop at the first that sends as many.",
    ),
    check=_check_enough,
    minutes=8,
)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


__all__ = ["EXERCISES", "QUIZ"]
EXERCISES = (TICK, SMALLEST_DRAIN, WASTE, ENOUGH)
