"""How many tokens: never one number. And what may be said of them as usage and as latency.

A token is *proposed* and *accepted* by drafts, *generated* when the engine publishes it, *sent* when the
ASGI send returned, *delivered* when the client says that it parsed it. Some are *trimmed* (computed behind a
stop string), *held back* (half a character, or what may become a stop string), *dropped* with the queue of
a request that ended, or *discarded* (computed for a request that had ended; never generated). An end token
without text counts as sent with the chunk that carries the finish reason.

Unknown is None and never 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lab.core.errors import CountError


@dataclass(slots=True)
class TokenCounts:
    """The counts of one request while it runs. Drafts are 0 where none are used; see ``check``."""

    proposed: int = 0
    accepted: int = 0
    generated: int = 0
    sent: int = 0
    delivered: int | None = None  # only the client can know
    trimmed: int = 0
    dropped: int = 0
    held_back: int = 0
    discarded: int | None = None  # only the engine can know, and it may not live to tell

    def check(self, *, sampling_steps: int | None = None) -> None:
        """Raises unless the counts can be true together, at any moment.

        Not a rule: ``proposed >= generated``. Every sampling step adds a token that no draft proposed.

        :param sampling_steps: where it is known, ``generated == accepted + sampling_steps`` must hold too.
        :raises CountError: naming the rule that is broken.
        """
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise CountError(f"{name} is {value}")
        rules = {
            "accepted <= proposed": self.accepted <= self.proposed,
            "accepted <= generated": self.accepted <= self.generated,
            "delivered <= sent": self.delivered is None or self.delivered <= self.sent,
            "sent + dropped + trimmed + held_back <= generated": self._accounted() <= self.generated,
            f"generated == accepted + {sampling_steps} sampling steps": sampling_steps is None
            or self.generated == self.accepted + sampling_steps,
        }
        self._raise_broken(rules)

    def check_final(self) -> None:
        """As ``check``, and nothing may be unaccounted for: ``generated == sent + dropped + trimmed``.

        :raises CountError: naming the rule that is broken.
        """
        self.check()
        self._raise_broken(
            {
                "nothing held back at the end": self.held_back == 0,
                "generated == sent + dropped + trimmed": self._accounted() == self.generated,
            }
        )

    def _accounted(self) -> int:
        return self.sent + self.dropped + self.trimmed + self.held_back

    def _raise_broken(self, rules: Mapping[str, bool]) -> None:
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise CountError(f"{'; '.join(broken)}: does not hold for {self}")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a finished request used, in the terms of the OpenAI API.

    ``cached_tokens`` are part of the prompt and ``reasoning_tokens`` part of the completion; None means that
    nobody counted, which is not the same as none. ``truncated``: ended by length.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    truncated: bool = False

    def __post_init__(self) -> None:
        """:raises CountError: for a negative count, or a part that is larger than its whole."""
        if self.prompt_tokens < 0 or self.completion_tokens < 0:
            raise CountError(f"a usage cannot be negative: {self}")
        if not 0 <= (self.cached_tokens or 0) <= self.prompt_tokens:
            raise CountError(f"cached tokens are part of the prompt: {self}")
        if not 0 <= (self.reasoning_tokens or 0) <= self.completion_tokens:
            raise CountError(f"reasoning tokens are part of the completion: {self}")

    @property
    def total_tokens(self) -> int:
        """Prompt and completion; cached and reasoning tokens are already in them."""
        return self.prompt_tokens + self.completion_tokens

    def to_openai(self) -> dict[str, Any]:
        """The ``usage`` object of a response. A detail that nobody counted is left out, not zero."""
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
        }
        if self.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        if self.reasoning_tokens is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return usage


def wants_usage(stream_options: Mapping[str, Any] | None) -> bool:
    """Whether the client asked for usage in its stream: only ``include_usage: true`` does, ``{}`` does not."""
    return stream_options is not None and stream_options.get("include_usage") is True


def usage_chunk(stream_options: Mapping[str, Any] | None, usage: Usage | None) -> dict[str, Any] | None:
    """The ``usage`` of the extra last chunk (``choices: []``, before ``[DONE]``); None: send no such chunk.

    ``usage`` is None for an interrupted stream. Then there is no usage chunk, rather than one with zeros.
    """
    return usage.to_openai() if usage is not None and wants_usage(stream_options) else None


def last_usage(chunks: Iterable[Mapping[str, Any]]) -> Usage | None:
    """The usage of a stream, from its decoded chunks; None if no chunk told it.

    Servers send it on the last chunk, on an extra one, or on every chunk so far in total. In each case the
    last one holds, and adding them up would count a token many times.

    :raises CountError: when the last usage is not an object with whole numbers.
    """
    last: Any = None
    truncated = False
    for chunk in chunks:
        if chunk.get("usage") is not None:
            last = chunk["usage"]
        truncated |= any(choice.get("finish_reason") == "length" for choice in chunk.get("choices") or ())
    if last is None:
        return None
    try:
        return Usage(
            prompt_tokens=_whole(last["prompt_tokens"]),
            completion_tokens=_whole(last["completion_tokens"]),
            cached_tokens=_detail(last.get("prompt_tokens_details"), "cached_tokens"),
            reasoning_tokens=_detail(last.get("completion_tokens_details"), "reasoning_tokens"),
            truncated=truncated,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise CountError(f"not a usage object: {last!r}") from error


def ttft(arrived_at: float, first_token_at: float | None) -> float | None:
    """Seconds to the first generated token of any channel; None if there was none."""
    return None if first_token_at is None else first_token_at - arrived_at


def tpot(first_at: float | None, last_at: float | None, tokens: int, parked: float = 0.0) -> float | None:
    """Mean seconds per token after the first: ``(last - first - parked) / (tokens - 1)``.

    :param parked: seconds between the two in which the reader, not the model, was waited for.
    :returns: None for one token or none: a mean of no intervals is unknown, not 0.
    """
    if tokens <= 1 or first_at is None or last_at is None:
        return None
    return (last_at - first_at - parked) / (tokens - 1)


def inter_token_gaps(token_stamps: Sequence[float]) -> list[float]:
    """Seconds between neighbours: one fewer than there are tokens. The time to the first is not a gap."""
    return [later - earlier for earlier, later in pairwise(token_stamps)]


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"not a whole number: {value!r}")
    return value


def _detail(details: Mapping[str, Any] | None, name: str) -> int | None:
    value = None if details is None else details.get(name)
    return None if value is None else _whole(value)
