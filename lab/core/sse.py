"""Server-Sent Events without I/O: bytes in, events out, and the other way round.

The parser follows the event stream chapter of the WHATWG HTML standard to the letter: lines end with CR,
LF or CRLF, a byte order mark counts only at the very start, a broken UTF-8 sequence becomes U+FFFD, and an
event that the stream does not finish with a blank line is not an event. How the bytes were cut into chunks
never changes what comes out.
"""

import re
from dataclasses import dataclass, field

from lab.core.errors import SSEError

_BOM = b"\xef\xbb\xbf"
_FORBIDDEN = re.compile(r"[\r\n\0]")
_MAX_RETRY_DIGITS = 18  # 30 million years in milliseconds; also keeps int() away from its own digit limit
_RETRY = re.compile(rf"0*([0-9]{{1,{_MAX_RETRY_DIGITS}}})")


@dataclass(frozen=True, slots=True)
class SSEEvent:
    """One dispatched event.

    ``id`` and ``retry`` are what this event itself carried, None if nothing. The id that still holds from
    an earlier event is ``SSEParser.last_event_id``; ``retry`` is in milliseconds.
    """

    data: str
    event: str = "message"
    id: str | None = None
    retry: int | None = None


def encode_event(
    data: str, *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Frames one event, blank line included.

    Each line of ``data`` becomes a data line, whether it ended in LF, CR or CRLF: a bare CR inside a line
    would end it at the reader, and what follows would be read as a field. It comes back with LF.

    :raises SSEError: when ``event`` or ``id`` holds a line break or NUL (whoever chooses their text could
        write fields of their own), ``event`` is empty, ``retry`` is no whole number of at least 0, or a text
        cannot be encoded as UTF-8.
    """
    fields = ""
    if event is not None:
        if not event or _FORBIDDEN.search(event):
            raise SSEError(f"an event name is one line and not empty, not {event!r}")
        fields += f"event: {event}\n"
    if id is not None:
        if _FORBIDDEN.search(id):
            raise SSEError(f"an event id is one line without NUL, not {id!r}")
        fields += f"id: {id}\n"
    if retry is not None:
        if isinstance(retry, bool) or not isinstance(retry, int) or not 0 <= retry < 10**_MAX_RETRY_DIGITS:
            raise SSEError(f"retry is a whole number of milliseconds, not {retry!r}")
        fields += f"retry: {retry}\n"
    if "\r" in data:
        data = data.replace("\r\n", "\n").replace("\r", "\n")
    # The space after the colon is ours: a reader takes one off, so that of the data stays.
    body = data.replace("\n", "\ndata: ")
    try:
        return f"{fields}data: {body}\n\n".encode()
    except UnicodeEncodeError as error:
        raise SSEError(f"not encodable as UTF-8: {error.reason} at character {error.start}") from error


@dataclass(slots=True)
class _Block:
    """The fields since the last blank line. ``held``: their bytes, also of those that a later one replaced."""

    data: list[str] = field(default_factory=list)
    event: str = ""
    id: str | None = None
    retry: int | None = None
    held: int = 0


class SSEParser:
    """Takes chunks of bytes as they come and returns the events that they complete.

    ``max_event_bytes`` bounds what is held for one event: its fields so far and the line in hand.
    ``comments`` counts comment lines (servers send them as pings), ``last_event_id`` and ``retry`` are what
    a reader that reconnects must know.
    """

    __slots__ = (
        "_block",
        "_closed",
        "_error",
        "_first_line",
        "_line",
        "_skip_lf",
        "comments",
        "last_event_id",
        "max_event_bytes",
        "retry",
    )

    def __init__(self, max_event_bytes: int = 1 << 20) -> None:
        """:raises SSEError: when the bound is not at least one byte."""
        if max_event_bytes < 1:
            raise SSEError(f"max_event_bytes must be at least 1, not {max_event_bytes}")
        self.max_event_bytes = max_event_bytes
        self.comments = 0
        self.last_event_id = ""
        self.retry: int | None = None
        self._line = bytearray()  # a line whose end has not come yet
        self._skip_lf = False  # the last byte was CR: an LF now is the rest of the same line end
        self._first_line = True
        self._closed = False
        self._error: SSEError | None = None
        self._block = _Block()

    def feed(self, chunk: bytes) -> list[SSEEvent]:
        """Parses ``chunk`` and returns the events that it completes, in order.

        :raises SSEError: when an event is larger than ``max_event_bytes``, or after ``close``. Events before
            the one that is too large are returned first; then the next call raises.
        """
        self._check_usable()
        if not chunk:
            return []
        if self._skip_lf:
            chunk = chunk.removeprefix(b"\n")
        self._skip_lf = chunk.endswith(b"\r")
        events: list[SSEEvent] = []
        try:
            for piece in chunk.splitlines(keepends=True):  # for bytes: CR, LF and CRLF, nothing else
                self._take(piece, events)
        except SSEError as error:
            self._error = error
            if not events:
                raise
        return events

    def close(self) -> bool:
        """The stream has ended.

        :returns: True if it ended inside an event, whose fields are dropped as the standard demands.
        :raises SSEError: when an event was too large and no call has said so yet, or was closed before.
        """
        self._check_usable()
        self._closed = True
        return bool(self._line or self._block.held)

    def _check_usable(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise SSEError("the parser is closed")

    def _take(self, piece: bytes, events: list[SSEEvent]) -> None:
        """One line, or the beginning of one when its end is not in this chunk."""
        content = piece.rstrip(b"\r\n")
        if self._block.held + len(self._line) + len(content) > self.max_event_bytes:
            raise SSEError(f"an event is larger than {self.max_event_bytes} bytes")
        if len(content) == len(piece):
            self._line += content
            return
        line = content
        if self._line:
            line = bytes(self._line) + content
            self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if line:
            self._field(line)
        else:
            self._dispatch(events)

    def _field(self, line: bytes) -> None:
        name, _, raw = line.partition(b":")
        if not name:
            self.comments += 1
            return
        block = self._block
        value = raw.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            block.data.append(value)
        elif name == b"event":
            block.event = value
        elif name == b"id":
            if "\0" not in value:
                block.id = value
        elif name == b"retry":
            if match := _RETRY.fullmatch(value):
                block.retry = self.retry = int(match[1])
        else:
            return  # unknown fields are ignored, so that the format can grow
        block.held += len(raw) + 1

    def _dispatch(self, events: list[SSEEvent]) -> None:
        block, self._block = self._block, _Block()
        if block.id is not None:
            self.last_event_id = block.id  # also without data: so a server moves its reader on
        if block.data:
            events.append(SSEEvent("\n".join(block.data), block.event or "message", block.id, block.retry))

    def __repr__(self) -> str:
        return f"SSEParser(held={self._block.held + len(self._line)}, comments={self.comments})"
