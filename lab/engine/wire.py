"""Messages as bytes: one frame is one batch, a length and a pickled list of plain tuples.

A message travels as its class's number and its fields; pickling the objects themselves takes several times as long.
Both ends are the same program, started one by the other, so pickle is safe here; nothing of this meets a network.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from lab.engine import messages as m
from lab.engine.errors import HostError

_CLASSES: tuple[type, ...] = (
    m.Submit,
    m.Abort,
    m.Credit,
    m.Ping,
    m.Stop,
    m.Started,
    m.Delta,
    m.Done,
    m.Aborted,
    m.Parked,
    m.Resumed,
    m.Failed,
    m.Pong,
    m.Stepped,
)
_LENGTH = struct.Struct("!I")


def _reader(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    """All fields of a message as a tuple."""
    names = [field.name for field in fields(cls)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple(getattr(message, name) for name in names)


_PACK = {cls: (code, _reader(cls)) for code, cls in enumerate(_CLASSES)}


def pack(batch: Iterable[m.Command | m.Event]) -> bytes:
    """One batch of messages."""
    rows = []
    for message in batch:
        code, read = _PACK[type(message)]
        rows.append((code, read(message)))
    return pickle.dumps(rows, protocol=pickle.HIGHEST_PROTOCOL)


def unpack(payload: bytes) -> list[Any]:
    """The messages of one batch.

    :raises HostError: when this is no batch.
    """
    try:
        return [_CLASSES[code](*values) for code, values in pickle.loads(payload)]
    except (pickle.UnpicklingError, EOFError, TypeError, ValueError, IndexError) as error:
        raise HostError(f"the peer sent {len(payload)} bytes that are no batch of messages") from error


def frame(payload: bytes) -> bytes:
    """The payload behind its length."""
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a byte stream into payloads; `feed` takes whatever a read gave."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Sequence[bytes]:
        """The payloads that are complete now."""
        buffer = self._buffer
        buffer += data
        payloads, at = [], 0
        while len(buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, at)
            end = at + _LENGTH.size + length
            if len(buffer) < end:
                break
            payloads.append(bytes(buffer[at + _LENGTH.size : end]))
            at = end
        del buffer[:at]
        return payloads
