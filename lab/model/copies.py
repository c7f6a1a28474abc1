"""How much of a text is copied: the longest run of characters that stands word for word in the training text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that it has an inverse modulo 2^64
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))


class CopyFinder:
    """Finds runs of characters shared with `text`.

    Windows of equal length are compared by a 64-bit hash, sum(code * base^i) modulo 2^64, computed for all windows at
    once from running sums. Two different windows share a hash once in 2^64 pairs.
    """

    def __init__(self, text: str) -> None:
        self._sums, self._shifts = _running_sums(text)

    def copied(self, samples: Sequence[str], length: int) -> list[bool]:
        """Of each sample, whether any `length` characters in a row stand in the text."""
        known = np.sort(_hashes(self._sums, self._shifts, length))
        return [bool(_found(_hashes(*_running_sums(sample), length), known).any()) for sample in samples]

    def longest(self, samples: Sequence[str]) -> int:
        """Length of the longest run that any of the samples shares with the text."""
        low, high = 0, max(map(len, samples), default=0)
        while low < high:  # a run of n characters contains a run of n - 1, so bisection finds the end
            middle = (low + high + 1) // 2
            if any(self.copied(samples, middle)):
                low = middle
            else:
                high = middle - 1
        return low


def _found(wanted: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(wanted), dtype=np.bool_)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.equal(known[place], wanted)


def _running_sums(text: str) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    powers = np.multiply.accumulate(np.full(len(codes), _BASE))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(codes * powers)))
    return sums, np.multiply.accumulate(np.full(len(codes), _INVERSE))


def _hashes(sums: NDArray[np.uint64], shifts: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """One hash for every window of `length` characters; none when the text is shorter."""
    windows = max(len(sums) - length, 0)
    return (sums[length : length + windows] - sums[:windows]) * shifts[:windows]
