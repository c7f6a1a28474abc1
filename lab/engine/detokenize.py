"""From token ids to text, piece by piece: never half a character, never a character of a stop string.

A token is a few bytes; a character may span several tokens and a token several characters. Two things are held back:
bytes that do not end a character yet, and text that is a proper prefix of a stop string (nothing more: holding a fixed
number of characters would delay every reader). Both are resolved by what follows, or by `finish`.

A token counts as published as soon as a character that it began is: so of a token cut by a stop string the part before
it is published and the token counts, while a token that lies wholly behind the cut counts as trimmed.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ByteTokens(Protocol):
    """The part of a tokenizer that an engine needs."""

    @property
    def eos_id(self) -> int: ...

    def token_bytes(self, token: int, /) -> bytes: ...


class Piece(NamedTuple):
    """Text that may go out now, the number of tokens that count with it, and whether a stop string was found."""

    text: str
    tokens: int
    stopped: bool


class Vocabulary:
    """The bytes of every token, looked up once; and the piece that a token makes if nothing is held (None: depends).

    Making those pieces once is worth it: almost every token of every request takes this way.
    """

    __slots__ = ("bytes", "eos_id", "pieces")

    def __init__(self, tokens: Sequence[bytes], eos_id: int) -> None:
        self.bytes = tuple(tokens)
        self.pieces = tuple(_whole_piece(part) for part in self.bytes)
        self.eos_id = eos_id

    @classmethod
    def of(cls, tokenizer: ByteTokens, size: int) -> Vocabulary:
        """The vocabulary of a tokenizer with `size` tokens."""
        return cls([tokenizer.token_bytes(token) for token in range(size)], tokenizer.eos_id)

    def __len__(self) -> int:
        return len(self.bytes)


class Detokenizer:
    """The text of one sequence.

    `published` counts the tokens in all pieces so far; `held` those that wait. After a piece with `stopped` set, or
    after `finish`, there is nothing more to ask, and `held` are the trimmed tokens.
    """

    __slots__ = ("_clear", "_decoder", "_held", "_length", "_starts", "_stops", "_vocabulary", "published")

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str] = ()) -> None:
        self._vocabulary = vocabulary
        self._stops = tuple(stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # text that may be the beginning of a stop string
        self._length = 0  # characters that came this slow way so far, published or held
        self._starts: deque[int] = (
            deque()
        )  # for each token that waits: the length that must be out for it to count
        self._clear = not self._stops  # nothing to search for and nothing held
        self.published = 0

    @property
    def held(self) -> int:
        """Tokens taken in that are in no piece."""
        return len(self._starts)

    def push(self, token: int, check_stop: bool = True) -> Piece:
        """Take one more token. With `check_stop` false no stop string ends or delays the text up to here."""
        piece = self._vocabulary.pieces[token]
        if self._clear and piece is not None:
            self.published += 1
            return piece
        data = self._vocabulary.bytes[token]
        self._starts.append(self._length + (1 if data else 0))
        piece = self._release(self._decoder.decode(data), check_stop)
        self._clear = not (self._stops or self._decoder.getstate()[0])
        return piece

    def finish(self) -> Piece:
        """No token follows: whatever is held goes out, and an unfinished character becomes one U+FFFD."""
        tail = self._decoder.decode(b"", final=True)
        self._length += len(tail)
        return self._publish(self._held + tail, everything=True)

    def _release(self, new: str, check_stop: bool) -> Piece:
        self._length += len(new)
        text = self._held + new
        if not check_stop or not self._stops:
            self._held = ""
            return self._publish(text)
        cut = first_stop(text, self._stops)
        if cut is not None:
            self._length -= len(text) - cut
            self._held = ""
            return self._publish(text[:cut])._replace(stopped=True)
        keep = held_length(text, self._stops)
        self._held = text[len(text) - keep :]
        return self._publish(text[: len(text) - keep])

    def _publish(self, text: str, everything: bool = False) -> Piece:
        """Count the tokens whose first character is out once `text` is."""
        out = self._length - len(self._held)
        count = 0
        while self._starts and (everything or self._starts[0] <= out):
            self._starts.popleft()
            count += 1
        self.published += count
        return Piece(text, count, False)


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the stop string that is complete first begins; of two that end together, the longer one.

    This rule does not depend on how the text was cut into tokens.
    """
    ends = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
    return min(ends)[1] if ends else None


def held_length(text: str, stops: Sequence[str]) -> int:
    """Length of the longest tail of `text` that is a proper prefix of a stop string."""
    longest = 0
    for stop in stops:
        for size in range(min(len(stop) - 1, len(text)), longest, -1):
            if text.endswith(stop[:size]):
                longest = size
                break
    return longest


def _whole_piece(data: bytes) -> Piece | None:
    try:
        return Piece(data.decode("utf-8"), 1, False)
    except UnicodeDecodeError:
        return None
