import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.core.errors import SSEError
from lab.core.sse import SSEEvent, SSEParser, encode_event


def parse(*chunks: bytes) -> list[SSEEvent]:
    parser = SSEParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    parser.close()
    return events


def feed_all(parser: SSEParser, stream: bytes, size: int) -> None:
    for at in range(0, len(stream), size):
        parser.feed(stream[at : at + size])


def told(parser: SSEParser) -> tuple:
    return parser.comments, parser.last_event_id, parser.retry


# -- parsing, case by case

E = SSEEvent
CASES = {
    "one event": (b"data: a\n\n", [E("a")]),
    "no space": (b"data:a\n\n", [E("a")]),
    "only the first space goes": (b"data:  a \n\n", [E(" a ")]),
    "a tab is no space": (b"data:\ta\n\n", [E("\ta")]),
    "lines are joined by LF": (b"data: a\ndata: b\ndata:\ndata: c\n\n", [E("a\nb\n\nc")]),
    "an empty data line is an event": (b"data:\n\n", [E("")]),
    "data without a colon too": (b"data\n\n", [E("")]),
    "two empty data lines are one LF": (b"data\ndata\n\n", [E("\n")]),
    "no data, no event": (b"event: x\nid: 1\n\n", []),
    "blank lines alone": (b"\n\n\r\r\r\n", []),
    "an unfinished event is none": (b"data: a\n\ndata: b\n", [E("a")]),
    "CR": (b"data: a\r\r", [E("a")]),
    "CRLF": (b"data: a\r\n\r\n", [E("a")]),
    "LF CR is two ends": (b"data: a\n\rdata: b\n\n", [E("a"), E("b")]),
    "CRLF and LF": (b"data: a\r\n\ndata: b\r\n\n", [E("a"), E("b")]),
    "mixed ends": (b"data: a\rdata: b\r\ndata: c\n\r\ndata: d\n\n", [E("a\nb\nc"), E("d")]),
    "event name": (b"event: ping\ndata: a\n\ndata: b\n\n", [E("a", "ping"), E("b")]),
    "empty event name is message": (b"event: x\nevent\ndata: a\n\n", [E("a")]),
    "the last event name counts": (b"event: x\nevent: y\ndata: a\n\n", [E("a", "y")]),
    "a name does not outlive its block": (b"event: x\n\ndata: a\n\n", [E("a")]),
    "id": (b"id: 7\ndata: a\n\ndata: b\n\n", [E("a", id="7"), E("b")]),
    "empty id": (b"id\ndata: a\n\n", [E("a", id="")]),
    "id with NUL is ignored": (b"id: 1\nid: 2\0\ndata: a\n\n", [E("a", id="1")]),
    "data may hold NUL": (b"data: \0\n\n", [E("\0")]),
    "retry": (b"retry: 0150\ndata: a\n\n", [E("a", retry=150)]),
    "retry that is no number": (b"retry: 1x\nretry: -1\nretry: 1.5\nretry:\ndata: a\n\n", [E("a")]),
    "retry in other digits": ("retry: ٣\ndata: a\n\n".encode(), [E("a")]),
    "retry with a space": (b"retry:  5\ndata: a\n\n", [E("a")]),
    "retry beyond all sense": (b"retry: " + b"9" * 5000 + b"\ndata: a\n\n", [E("a")]),
    "retry behind many zeros": (b"retry: " + b"0" * 5000 + b"\ndata: a\n\n", [E("a", retry=0)]),
    "unknown fields": (b"foo: 1\nDATA: x\n data: y\ndata : z\ndata: a\n\n", [E("a")]),
    "a comment is no field": (b": data: x\n:\ndata: a\n:\n\n", [E("a")]),
    "the colon in the value stays": (b"data: a: b\n\n", [E("a: b")]),
    "BOM at the start": (b"\xef\xbb\xbfdata: a\n\n", [E("a")]),
    "only one BOM": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "BOM in the second line": (b"\n\xef\xbb\xbfdata: a\n\n", []),
    "BOM before a blank line": (b"\xef\xbb\xbf\ndata: a\n\n", [E("a")]),
    "a BOM in the value is text": (b"data: \xef\xbb\xbfa\n\n", [E("\ufeffa")]),
    "UTF-8": ("data: é 流 🙂\n\n".encode(), [E("é 流 🙂")]),
    "broken UTF-8": (b"data: \xff\xc3\ndata: \xe6\xb5\n\n", [E("\ufffd\ufffd\n\ufffd")]),
    "other line separators are text": ("data: a\u2028b\x0bc\x85\n\n".encode(), [E("a\u2028b\x0bc\x85")]),
}


@pytest.mark.parametrize(("stream", "events"), CASES.values(), ids=CASES)
def test_the_standard_case_by_case(stream, events):
    assert parse(stream) == events


@pytest.mark.parametrize("stream", [case[0] for case in CASES.values() if len(case[0]) < 100])
def test_every_two_way_split_and_byte_by_byte_say_the_same(stream):
    whole = SSEParser()
    events = whole.feed(stream)
    cut_off = whole.close()
    for chunks in [
        *((stream[:at], stream[at:]) for at in range(len(stream) + 1)),
        tuple(stream[at : at + 1] for at in range(len(stream))),
    ]:
        parser = SSEParser()
        assert [event for chunk in chunks for event in parser.feed(chunk)] == events
        assert told(parser) == told(whole)
        assert parser.close() is cut_off


def test_an_event_is_out_with_its_last_byte_even_if_that_is_a_cr():
    parser = SSEParser()
    assert parser.feed(b"data: a\r") == []
    assert parser.feed(b"\r") == [E("a")], "waiting for an LF that may never come would delay it"
    assert parser.feed(b"") == []
    assert parser.feed(b"\ndata: b\n\n") == [E("b")], "the LF after the CR is no line of its own"


def test_comments_are_counted():
    parser = SSEParser()
    parser.feed(b": ping\n\n:\n\ndata: a\n")
    parser.feed(b":x\n\n")
    assert parser.comments == 3
    parser.feed(b"data: abc\nda")
    assert repr(parser) == "SSEParser(held=7, comments=3)"


def test_what_a_reader_that_reconnects_must_know():
    parser = SSEParser()
    parser.feed(b"id: 1\nretry: 30\ndata: a\n\n")
    assert (parser.last_event_id, parser.retry) == ("1", 30)
    parser.feed(b"id: 2\n")
    assert parser.last_event_id == "1", "not before the blank line"
    parser.feed(b"\n")
    assert parser.last_event_id == "2", "also without data"
    parser.feed(b"id\n\n")
    assert parser.last_event_id == "", "an empty id forgets"


@pytest.mark.parametrize(
    ("stream", "cut_off"),
    [
        (b"", False),
        (b"data: a\n\n", False),
        (b"data: a\n\n: ping\n", False),
        (b"data: a\n", True),
        (b"dat", True),
        (b"data: a\n\nevent: x\n", True),
    ],
)
def test_close_says_whether_an_event_was_cut_off(stream, cut_off):
    parser = SSEParser()
    parser.feed(stream)
    assert parser.close() is cut_off


def test_a_closed_parser_is_closed():
    parser = SSEParser()
    parser.close()
    with pytest.raises(SSEError, match="closed"):
        parser.feed(b"")
    with pytest.raises(SSEError, match="closed"):
        parser.close()


# -- the bound


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"a" * 15,  # a line that never ends
        b"x" * 21 + b"\n",
        b"data: aaaaaaaaa\ndata: aaaaaaaaa\n\n",  # lines that are small, and too many
        b": " + b"c" * 30 + b"\n\n",
        b"event: aaaaaaaa\nid: aaaaaaaa\ndata: a\n\n",
    ],
)
def test_an_event_larger_than_the_bound(stream):
    for size in (1, len(stream)):
        parser = SSEParser(max_event_bytes=20)
        with pytest.raises(SSEError, match="larger than 20 bytes"):
            feed_all(parser, stream, size)
        with pytest.raises(SSEError, match="larger than 20 bytes"):
            parser.feed(b"\n\n")
        with pytest.raises(SSEError, match="larger than 20 bytes"):
            parser.close()


def test_the_bound_itself_is_allowed():
    parser = SSEParser(max_event_bytes=20)
    assert parser.feed(b"data: " + b"a" * 14 + b"\n\n") == [E("a" * 14)]
    assert parser.feed(b"data: " + b"a" * 14 + b"\n\n") == [E("a" * 14)], "each event has its own"


def test_pings_and_unknown_fields_are_not_held():
    parser = SSEParser(max_event_bytes=20)
    assert parser.feed(b"data: a\n" + b": ping\nfoo: bar\n" * 1000 + b"\n") == [E("a")]


def test_events_before_the_one_that_is_too_large_are_not_lost():
    parser = SSEParser(max_event_bytes=20)
    assert parser.feed(b"data: a\n\ndata: " + b"b" * 50 + b"\n\ndata: c\n\n") == [E("a")]
    with pytest.raises(SSEError, match="larger"):
        parser.feed(b"")


@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_that_lets_nothing_through(bound):
    with pytest.raises(SSEError):
        SSEParser(bound)


# -- framing


@pytest.mark.parametrize(
    ("event", "frame"),
    [
        ({"data": "a"}, b"data: a\n\n"),
        ({"data": ""}, b"data: \n\n"),
        ({"data": " a"}, b"data:  a\n\n"),
        ({"data": "a\nb"}, b"data: a\ndata: b\n\n"),
        ({"data": "a\rb\r\nc\r\r\nd\n"}, b"data: a\ndata: b\ndata: c\ndata: \ndata: d\ndata: \n\n"),
        ({"data": "[DONE]"}, b"data: [DONE]\n\n"),
        (
            {"data": "é", "event": "x", "id": "7", "retry": 0},
            b"event: x\nid: 7\nretry: 0\ndata: \xc3\xa9\n\n",
        ),
        ({"data": "a", "id": ""}, b"id: \ndata: a\n\n"),
    ],
)
def test_frames(event, frame):
    assert encode_event(**event) == frame


@pytest.mark.parametrize(
    "fields",
    [
        {"event": "a\nb"},
        {"event": "a\r"},
        {"event": "a\0"},
        {"event": ""},
        {"id": "1\ndata: forged"},
        {"id": "1\r"},
        {"id": "\0"},
        {"retry": -1},
        {"retry": 1.5},
        {"retry": True},
        {"retry": 10**18},
        {"event": "\ud800"},
        {"data": "\udfff"},
    ],
)
def test_fields_that_cannot_be_framed(fields):
    with pytest.raises(SSEError):
        encode_event(**{"data": "a", **fields})


# -- properties

texts = st.text(
    st.one_of(st.sampled_from("\r\n\0:\ufeff a\u2028é🙂"), st.characters(codec="utf-8")), max_size=12
)
names = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=8)
events = st.builds(
    SSEEvent,
    data=texts.map(lambda text: text.replace("\r\n", "\n").replace("\r", "\n")),
    event=names,
    id=st.none() | names | st.just(""),
    retry=st.none() | st.integers(0, 10**18 - 1),
)


def chunked(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(marks)]


@settings(max_examples=300)
@given(st.lists(events, max_size=6), st.lists(st.integers(0, 10_000), max_size=12))
def test_what_was_framed_comes_back_in_any_chunks(sent, cuts):
    stream = b"".join(encode_event(e.data, event=e.event, id=e.id, retry=e.retry) for e in sent)
    assert parse(*chunked(stream, cuts)) == sent


@given(texts)
def test_data_comes_back_with_lf_for_every_line_end(text):
    assert parse(encode_event(text)) == [E(text.replace("\r\n", "\n").replace("\r", "\n"))]


soup = st.lists(
    st.sampled_from(
        [
            *(b"data", b"event", b"id", b"retry", b":", b" ", b"\r", b"\n", b"\r\n", b"\n\n"),
            *(b"\xef\xbb\xbf", b"\xef", b"\xe6\xb5\x81", b"\xff", b"\0", b"7", b"x", b"data: y\n\n"),
        ]
    ),
    max_size=30,
).map(b"".join)


@settings(max_examples=500)
@given(soup | st.binary(max_size=60), st.lists(st.integers(0, 10_000), max_size=8), st.integers(1, 40))
def test_any_bytes_in_any_chunks_give_the_same_events_and_the_same_error(stream, cuts, bound):
    def run(chunks: list[bytes]) -> tuple:
        parser, found = SSEParser(bound), []
        try:
            for chunk in chunks:
                found += parser.feed(chunk)
            return found, parser.close(), told(parser)
        except SSEError as error:
            return found, str(error), told(parser)

    assert run(chunked(stream, cuts)) == run([stream])


def reference(stream: bytes) -> list[SSEEvent]:
    """The standard's algorithm on a whole stream, as plainly as possible."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found, data, kind, ident, retry = [], "", "", None, None
    for line in text.split("\n")[:-1]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                found.append(SSEEvent(data[:-1], kind or "message", ident, retry))
            data, kind, ident, retry = "", "", None, None
        elif name == "data":
            data += value + "\n"
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            ident = value
        elif name == "retry" and value and all(char in "0123456789" for char in value):
            retry = int(value)
    return found


@settings(max_examples=500)
@given(soup)
def test_it_agrees_with_the_plain_algorithm_of_the_standard(stream):
    assert parse(stream) == reference(stream)
