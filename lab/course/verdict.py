"""What a check says about an answer: one of five outcomes, a reason, and the smallest counterexample.

Checks return verdicts; they never use `assert`, which `python -O` would remove.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

MAX_TEXT = 300
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")


class Outcome(StrEnum):
    """The five answers of a check, worded as they are printed."""

    NOT_ATTEMPTED = "not attempted"
    WRONG = "wrong"
    EXCEPTION = "exception"
    UNKNOWN = "unknown"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one check.

    `reason` is a plain sentence without a full stop; `counterexample` is the smallest input on
    which the answer is wrong, as text.
    """

    outcome: Outcome
    reason: str = ""
    counterexample: str | None = None

    def line(self, exercise_id: str) -> str:
        """The one line that `check` prints: no addresses, no times, no line breaks."""
        text = f"{exercise_id} {self.outcome}"
        if self.reason:
            text += f": {one_line(self.reason)}"
        if self.counterexample is not None:
            text += f"; smallest counterexample: {one_line(self.counterexample)}"
        return text


def passed() -> Verdict:
    """The answer does what the exercise asks."""
    return Verdict(Outcome.PASSED)


def wrong(reason: str, counterexample: object | None = None) -> Verdict:
    """The answer ran and is wrong; `counterexample` is text, or any value with a stable repr."""
    shown = (
        counterexample if counterexample is None or isinstance(counterexample, str) else repr(counterexample)
    )
    return Verdict(Outcome.WRONG, reason, shown)


def unknown(reason: str) -> Verdict:
    """There is too little evidence to say: a run without overload, too few samples, a noisy machine."""
    return Verdict(Outcome.UNKNOWN, reason)


def not_attempted(reason: str = "") -> Verdict:
    """The stub is still there, or its cell has not run."""
    return Verdict(Outcome.NOT_ATTEMPTED, reason)


def one_line(text: str) -> str:
    """`text` on one line, without memory addresses and control characters, at most MAX_TEXT characters."""
    flat = _ADDRESS.sub("0x...", printable(" ".join(text.split())))
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 3] + "..."


def printable(text: str) -> str:
    """`text` with a question mark for each character that a terminal or a file could choke on."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
