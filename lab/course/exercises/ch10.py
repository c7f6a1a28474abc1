"""The exercises of chapter 10, streaming over SSE. Its quiz stands in `quiz10`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lab.core.endings import ENDINGS, AfterFirstByte, Reason
from lab.core.sse import SSEParser
from lab.course.calls import call
from lab.course.exercise import Exercise, WrongAnswer
from lab.course.exercises.quiz10 import QUIZ
from lab.course.verdict import Verdict, passed, wrong

# --- 10-1 -----------------------------------------------------------------------------------------

_STREAMS = (
    b"data: a\n\n",
    b"data: a\n\ndata: b\n\n",
    b"data: a\r\n\r\n",
    ": ping\n\ndata: é\n\n".encode(),
    "data: 网\r\n\r\ndata: 🦉\r\n\r\n".encode(),
    b"data: a\ndata: b\n\n",
    b"data:  a\n\ndata:b\n\n",
    b"data: a\n\ndata: cut off",
)


def _check_events(names: Mapping[str, Any]) -> Verdict:
    """Every stream whole, cut once at every byte, and byte by byte: the fewest pieces first."""
    for stream in _STREAMS:
        expected = [event.data for event in SSEParser().feed(stream)]
        for pieces in _cuts(stream):
            given = call(names["events"], pieces)
            if given != expected:
                shown = f"events({pieces!r}) gives {given!r}, expected {expected!r}"
                return wrong(_events_reason(given, expected, stream, len(pieces)), shown)
    return passed()


def _cuts(stream: bytes) -> Iterator[list[bytes]]:
    yield [stream]
    yield from ([stream[:cut], stream[cut:]] for cut in range(1, len(stream)))
    yield [stream[at : at + 1] for at in range(len(stream))]


def _events_reason(given: object, expected: list[str], stream: bytes, pieces: int) -> str:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        return "it must return a list of texts"
    if pieces > 1:
        if "\ufffd" in "".join(given):
            return "a character was cut in two and each half decoded alone"
        return "the pieces are cut where the network likes: this cut loses or changes an event"
    if b"cut off" in stream and len(given) > len(expected):
        return "an event without its blank line never was one"
    if [text.strip() for text in given] == [text.strip() for text in expected]:
        return "exactly one space after the colon belongs to the format, no more and no less"
    if b"\r" in stream:
        return "a line may end in CR LF as well"
    if stream.count(b"data:") > stream.count(b"\n\n"):
        return "several data lines before one blank line are one event, joined by a line feed"
    return "one event for each blank line that follows a data line, and a comment is none"


EVENTS = Exercise(
    id="10-1",
    title="Events out of any pieces",
    names=("events",),
    stub='''\
def events(pieces):
    """The data of every event in a stream that comes in pieces.

    pieces  a list of bytes; together they are the stream, cut anywhere, also inside a character or a line end

    Lines end in LF or CR LF. A line `data: text` adds to the event, a blank line ends it; one space after the
    colon is not part of the text. Several data lines are joined by a line feed. Lines that begin with a colon
    are comments. What has no blank line after it is not an event. Returns a list of str. About twelve lines.
    """
    raise NotImplementedError
''',
    solution="""\
def events(pieces):
    found, data, rest = [], [], b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\\n")
        for line in lines:
            line = line.removesuffix(b"\\r")
            if line.startswith(b"data:"):
                data.append(line.removeprefix(b"data:").removeprefix(b" ").decode())
            elif not line and data:
                found.append("\\n".join(data))
                data = []
    return found
""",
    wrong=(
        WrongAnswer(
            "takes each piece for whole events",
            "def events(pieces):\n"
            "    found = []\n"
            "    for piece in pieces:\n"
            "        for block in piece.decode('utf-8', 'replace').replace('\\r\\n', '\\n').split('\\n\\n')[:-1]:\n"
            "            lines = [l[5:].removeprefix(' ') for l in block.split('\\n') if l.startswith('data:')]\n"
            "            if lines:\n                found.append('\\n'.join(lines))\n"
            "    return found\n",
            "this cut loses or changes an event",
        ),
        WrongAnswer(
            "decodes each piece before putting them together",
            "def events(pieces):\n"
            "    text = ''.join(piece.decode('utf-8', 'replace') for piece in pieces).replace('\\r\\n', '\\n')\n"
            "    found = []\n"
            "    for block in text.split('\\n\\n')[:-1]:\n"
            "        lines = [l[5:].removeprefix(' ') for l in block.split('\\n') if l.startswith('data:')]\n"
            "        if lines:\n            found.append('\\n'.join(lines))\n"
            "    return found\n",
            "a character was cut in two",
        ),
        WrongAnswer(
            "makes an event of each data line",
            "def events(pieces):\n"
            "    lines = b''.join(pieces).replace(b'\\r\\n', b'\\n').split(b'\\n')[:-1]\n"
            "    return [l[5:].removeprefix(b' ').decode() for l in lines if l.startswith(b'data:')]\n",
            "several data lines",
        ),
        WrongAnswer(
            "strips the text",
            "def events(pieces):\n"
            "    found, data = [], []\n"
            "    for line in b''.join(pieces).split(b'\\n')[:-1]:\n"
            "        line = line.strip()\n"
            "        if line.startswith(b'data:'):\n            data.append(line[5:].strip().decode())\n"
            "        elif not line and data:\n            found.append('\\n'.join(data))\n            data = []\n"
            "    return found\n",
            "exactly one space",
        ),
        WrongAnswer(
            "also returns an event that was cut off",
            "def events(pieces):\n"
            "    found = []\n"
            "    for block in b''.join(pieces).replace(b'\\r\\n', b'\\n').split(b'\\n\\n'):\n"
            "        lines = [l[5:].removeprefix(b' ') for l in block.split(b'\\n') if l.startswith(b'data:')]\n"
            "        if lines:\n            found.append(b'\\n'.join(lines).decode())\n"
            "    return found\n",
            "never was one",
        ),
    ),
    hints=(
        "Keep what is left after the last line end, and put it before the next piece.",
        "Stay with bytes until you have a whole line: a line end is never inside a character of UTF-8.",
        "For each whole line: a data line goes into a list; a blank line turns that list into one event, "
        "if there is something in it; everything else is ignored.",
    ),
    check=_check_events,
    minutes=12,
)

# --- 10-2 -----------------------------------------------------------------------------------------

_CHUNK = '{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}'


def _finish(reason: str) -> str:
    return json.dumps({"choices": [{"delta": {}, "finish_reason": reason}]})


def _failure(code: str) -> str:
    return json.dumps({"error": {"code": code, "message": "x"}})


_ROLE = '{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
_NO_CHOICE = '{"choices":[],"usage":{"total_tokens":3}}'
_TIMELINES: tuple[tuple[tuple[float, str], ...], ...] = (
    (),
    ((1.0, "[DONE]"),),
    ((1.0, _CHUNK), (2.0, "[DONE]")),
    ((1.0, _ROLE), (2.0, _CHUNK), (3.0, _CHUNK), (4.0, "[DONE]")),
    ((1.0, _ROLE), (2.0, _finish("stop")), (3.0, "[DONE]")),
    ((1.0, _ROLE), (2.0, _NO_CHOICE), (3.0, _CHUNK), (4.0, "[DONE]")),
    ((1.0, _ROLE), (2.0, _failure("ttft_timeout")), (3.0, "[DONE]")),
    ((0.0, _CHUNK), (1.0, _CHUNK)),
)


def _check_first_content(names: Mapping[str, Any]) -> Verdict:
    """Timelines that carry each kind of chunk that is no text."""
    for timeline in _TIMELINES:
        at = [when for when, data in timeline if data == _CHUNK]
        expected = at[0] if at else None
        given = call(names["first_content"], list(timeline))
        if given != expected or isinstance(given, bool):
            shown = f"first_content({list(timeline)!r}) gives {given!r}, expected {expected!r}"
            return wrong(_content_reason(given, dict(timeline), expected), shown)
    return passed()


def _content_reason(given: object, timeline: Mapping[float, str], expected: float | None) -> str:
    data = timeline.get(given, "") if isinstance(given, float) else ""
    if data == _ROLE:
        return "that chunk names the role; its text is empty"
    if "usage" in data or ("finish_reason" in data and data != _CHUNK):
        return "that chunk carries no text, only how the answer ended or what it cost"
    if data:
        return "that one is later than the first text, or is none" if expected else "nothing here is a text"
    if expected is None:
        return "no text ever came: None, since unknown is not zero"
    return "the first text came earlier or later than that"


FIRST_CONTENT = Exercise(
    id="10-2",
    title="The first text",
    names=("first_content",),
    stub='''\
def first_content(timeline):
    """When the first text of a chat completion arrived; None when none did.

    timeline  a list of (seconds, data) in order; data is the data of one event, a JSON chunk or "[DONE]"

    A chunk has text when choices[0].delta.content is there and not empty. The first chunk names only the role,
    a chunk of usage has no choices, an error has neither. `json` is there. About eight lines.
    """
    raise NotImplementedError
''',
    solution="""\
def first_content(timeline):
    for seconds, data in timeline:
        if data == "[DONE]":
            continue
        choices = json.loads(data).get("choices")
        if choices and choices[0]["delta"].get("content"):
            return seconds
    return None
""",
    wrong=(
        WrongAnswer(
            "takes the first event for the first text",
            "def first_content(timeline):\n    return timeline[0][0] if len(timeline) > 1 else None\n",
            "names the role",
        ),
        WrongAnswer(
            "asks whether content is there, not whether it says something",
            "def first_content(timeline):\n"
            "    for seconds, data in timeline:\n"
            "        if data != '[DONE]' and 'content' in (json.loads(data).get('choices') or [{}])[0].get('delta', {}):\n"
            "            return seconds\n",
            "names the role",
        ),
        WrongAnswer(
            "takes the second chunk, since the first names the role",
            "def first_content(timeline):\n"
            "    chunks = [(s, d) for s, d in timeline if d != '[DONE]' and '\"role\"' not in d]\n"
            "    return chunks[0][0] if chunks else None\n",
            "carries no text",
        ),
        WrongAnswer(
            "calls it zero when no text came",
            "def first_content(timeline):\n"
            "    for seconds, data in timeline:\n"
            "        if data != '[DONE]':\n"
            "            choices = json.loads(data).get('choices') or [{}]\n"
            "            if choices[0].get('delta', {}).get('content'):\n                return seconds\n"
            "    return 0\n",
            "unknown is not zero",
        ),
    ),
    hints=(
        "Look at each kind of event in turn: role, text, finish, usage, error, [DONE]. Which one has text?",
        "An empty text is no text. `if choices and choices[0]['delta'].get('content')` says it all.",
    ),
    check=_check_first_content,
    minutes=6,
)

# --- 10-3 -----------------------------------------------------------------------------------------


def _check_ending(names: Mapping[str, Any]) -> Verdict:
    """Every ending that a client can be told of, as it looks on the wire, then the streams that are cut."""
    for status, data, expected in sorted(_endings(), key=lambda case: len(case[1])):
        given = call(names["ending"], status, list(data))
        if given != expected:
            shown = f"ending({status}, {list(data)!r}) gives {given!r}, expected {expected!r}"
            return wrong(_ending_reason(status, data, given), shown)
    return passed()


def _endings() -> Iterator[tuple[int, tuple[str, ...], str]]:
    for reason, ending in ENDINGS.items():
        if ending.after is AfterFirstByte.FINISH_REASON:
            yield 200, (_CHUNK, _finish(reason), "[DONE]"), reason.value
        elif ending.after is AfterFirstByte.ERROR:
            yield 200, (_CHUNK, _failure(reason), "[DONE]"), reason.value
            if ending.status is not None and ending.status != 499:
                yield ending.status, (_failure(reason),), reason.value
    yield 429, (_failure("rate_limited"),), "rate_limited"
    yield 200, (), "cut"
    yield 200, (_CHUNK,), "cut"
    yield 200, (_CHUNK, _finish(Reason.STOP)), "cut"
    told = '{"choices":[{"delta":{"content":"[DONE] error"},"finish_reason":null}]}'
    yield 200, (told, _finish(Reason.STOP), "[DONE]"), "stop"
    yield (
        200,
        (_CHUNK, _finish(Reason.LENGTH), '{"choices":[],"usage":{"total_tokens":9}}', "[DONE]"),
        "length",
    )


def _ending_reason(status: int, data: tuple[str, ...], given: object) -> str:
    if not isinstance(given, str):
        return "it must return a text"
    if status != 200:
        return "no stream has begun here: the one body is the error, and its code is the reason"
    if not data or data[-1] != "[DONE]":
        return "without [DONE] the stream was cut, whatever came before"
    if any('"error"' in text for text in data):
        return "a 200 is a promise made before the end was known: the error came inside the stream"
    return "the reason stands in finish_reason, and a chunk of usage may come after it"


ENDING = Exercise(
    id="10-3",
    title="How did it end?",
    names=("ending",),
    stub='''\
def ending(status, data):
    """Why a response ended, as the client can know it.

    status  the HTTP status
    data    for 200 the data of all events, as texts; for any other status a list with the one body

    A natural ending stands in choices[0].finish_reason: "stop" or "length". Any other is {"error": {"code": ...}}.
    A stream that does not end with "[DONE]" was cut: return "cut". Otherwise return the reason. `json` is
    there. About ten lines.
    """
    raise NotImplementedError
''',
    solution="""\
def ending(status, data):
    if status != 200:
        return json.loads(data[0])["error"]["code"]
    if not data or data[-1] != "[DONE]":
        return "cut"
    for text in reversed(data[:-1]):
        chunk = json.loads(text)
        if "error" in chunk:
            return chunk["error"]["code"]
        if chunk["choices"]:
            return chunk["choices"][0]["finish_reason"]
""",
    wrong=(
        WrongAnswer(
            "takes every 200 for a success",
            "def ending(status, data):\n"
            "    if status != 200:\n        return json.loads(data[0])['error']['code']\n"
            "    if not data or data[-1] != '[DONE]':\n        return 'cut'\n"
            "    reasons = [json.loads(t)['choices'][0]['finish_reason'] for t in data[:-1]\n"
            "               if json.loads(t).get('choices')]\n"
            "    return reasons[-1] or 'stop'\n",
            "a promise made before the end",
        ),
        WrongAnswer(
            "does not miss a [DONE] when the finish reason is there",
            "def ending(status, data):\n"
            "    if status != 200:\n        return json.loads(data[0])['error']['code']\n"
            "    for text in reversed(data):\n"
            "        chunk = {} if text == '[DONE]' else json.loads(text)\n"
            "        if 'error' in chunk:\n            return chunk['error']['code']\n"
            "        if chunk.get('choices') and chunk['choices'][0]['finish_reason']:\n"
            "            return chunk['choices'][0]['finish_reason']\n"
            "    return 'cut'\n",
            "without [DONE] the stream was cut",
        ),
        WrongAnswer(
            "looks only at the last chunk before [DONE]",
            "def ending(status, data):\n"
            "    if status != 200:\n        return json.loads(data[0])['error']['code']\n"
            "    if not data or data[-1] != '[DONE]':\n        return 'cut'\n"
            "    chunk = json.loads(data[-2])\n"
            "    if 'error' in chunk:\n        return chunk['error']['code']\n"
            "    return chunk['choices'][0]['finish_reason'] if chunk['choices'] else 'unknown'\n",
            "a chunk of usage may come after it",
        ),
        WrongAnswer(
            "reports the status instead of the reason",
            "def ending(status, data):\n"
            "    if status != 200:\n        return f'http {status}'\n"
            "    return 'cut' if not data or data[-1] != '[DONE]' else 'stop'\n",
            "its code is the reason",
        ),
    ),
    hints=(
        "Three questions in this order: has a stream begun at all? Did it come to its end? What does the end say?",
        "The status was sent before anybody knew the ending. What is not 200 has no stream, only one error.",
        "Go backwards from [DONE]. The first chunk with an error or with choices decides; usage has no choices.",
    ),
    check=_check_ending,
    minutes=10,
)

__all__ = ["EXERCISES", "QUIZ"]
EXERCISES = (EVENTS, FIRST_CONTENT, ENDING)
