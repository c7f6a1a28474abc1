"""One sequence: what the engine loop knows about one attempt, from submit to its one ending.

    WAITING -> PREFILL -> DECODE <-> PARKED          any of them -> ENDED

A WAITING sequence holds nothing. From PREFILL on it holds a slot, until it is ENDED.
"""

from __future__ import annotations

import math
from enum import Enum, auto

from lab.core.errors import CapacityError
from lab.core.send_queue import Credits
from lab.engine.detokenize import Detokenizer, Piece, Vocabulary
from lab.engine.errors import SubmitError
from lab.engine.messages import NaturalReason, Submit
from lab.engine.sampler import Draws


class Stage(Enum):
    """Where a sequence is."""

    WAITING = auto()
    PREFILL = auto()
    DECODE = auto()
    PARKED = auto()
    ENDED = auto()


class Sequence:
    """State of one attempt; changed by the engine loop alone.

    `token` is the newest token, not yet in the cache; `position` is where it will go. `computed` counts the prompt
    tokens already in the cache. `special` says that the best logit alone does not decide. `reason` is set once the
    model is done.
    """

    __slots__ = (
        "attempt_id",
        "computed",
        "credits",
        "draws",
        "generated",
        "params",
        "position",
        "prompt",
        "reason",
        "slot",
        "special",
        "stage",
        "text",
        "token",
    )

    def __init__(self, submit: Submit, vocabulary: Vocabulary) -> None:
        """:raises SubmitError: when the marks of the credits make no sense."""
        self.attempt_id = submit.attempt_id
        self.prompt = submit.prompt
        self.params = submit.params
        try:
            self.credits = Credits(None) if submit.coalesce else Credits(submit.capacity, submit.low)
        except CapacityError as error:
            raise SubmitError(str(error)) from error
        self.draws = Draws(submit.params.seed)
        self.special = submit.params.temperature > 0 or submit.params.min_tokens > 0
        self.text = Detokenizer(vocabulary, submit.params.stop)
        self.stage = Stage.WAITING
        self.slot = -1
        self.computed = 0
        self.generated = 0
        self.token = -1
        self.position = len(submit.prompt)
        self.reason: NaturalReason | None = None

    @property
    def trimmed(self) -> int:
        """Generated tokens in no published text: held back, or cut away for good once the model is done."""
        return self.generated - self.text.published

    @property
    def bars_eos(self) -> bool:
        """True while `min_tokens` forbids an end of sequence."""
        return self.generated < self.params.min_tokens and not self.params.ignore_eos

    def accept(self, token: int, eos_id: int) -> Piece:
        """Take the token that the model chose; what may be published now. Sets `reason` when the model is done."""
        params = self.params
        if self.generated:
            self.position += 1
        self.generated += 1
        self.token = token
        if token == eos_id and not params.ignore_eos:
            self.reason = "stop"
            return self.text.finish()
        piece = self.text.push(token, self.generated > params.min_tokens)
        if piece.stopped:
            self.reason = "stop"
        elif self.generated >= params.max_tokens:
            self.reason = "length"
            tail = self.text.finish()
            piece = Piece(piece.text + tail.text, piece.tokens + tail.tokens, False)
        return piece

    def __repr__(self) -> str:
        return (
            f"Sequence({self.attempt_id!r}, {self.stage.name}, slot={self.slot}, prompt={len(self.prompt)}, "
            f"generated={self.generated}, {self.credits})"
        )


def check_submit(submit: Submit, max_len: int, vocab_size: int) -> None:
    """Refuse what could never run.

    :raises SubmitError: with one line that names the field.
    """
    params = submit.params
    needed = len(submit.prompt) + params.max_tokens
    checks = (
        (len(submit.prompt) > 0, "prompt must hold at least one token"),
        (
            all(0 <= token < vocab_size for token in submit.prompt),
            f"prompt tokens must lie in 0..{vocab_size - 1}",
        ),
        (params.max_tokens >= 1, f"max_tokens must be at least 1, not {params.max_tokens}"),
        (
            0 <= params.min_tokens <= params.max_tokens,
            f"min_tokens must lie in 0..max_tokens, not {params.min_tokens}",
        ),
        (
            0 <= params.temperature < math.inf,
            f"temperature must be finite and not negative, not {params.temperature}",
        ),
        (0 < params.top_p <= 1, f"top_p must lie above 0 and not above 1, not {params.top_p}"),
        (params.top_k >= 0, f"top_k must not be negative, not {params.top_k}"),
        (all(params.stop), "stop strings must not be empty"),
        (
            needed <= max_len,
            f"prompt and max_tokens need {needed} positions, but a sequence holds at most {max_len}",
        ),
    )
    for passed, message in checks:
        if not passed:
            raise SubmitError(message)
