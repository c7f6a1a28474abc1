"""Frames and pipes: what goes in comes out, whatever the cuts, and a full pipe blocks nobody."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.engine.child import PipeMailbox
from lab.engine.errors import HostError
from lab.engine.messages import (
    Abort,
    Aborted,
    Credit,
    Delta,
    Done,
    Failed,
    Parked,
    Ping,
    Pong,
    Resumed,
    SamplingParams,
    Started,
    Stepped,
    StepStats,
    Stop,
    Submit,
)
from lab.engine.outbox import Outbox
from lab.engine.wire import FrameReader, frame, pack, unpack

BATCH = [
    Submit("r", (1, 2), SamplingParams(3, temperature=0.5, stop=("é",)), 4, 1, True),
    Abort("r"),
    Credit("r", 2),
    Ping(1.5),
    Stop(),
    Started("r", 0.1),
    Delta("r", "漢", 2, 7, 0.2),
    Done("r", "stop", 9, 1, 0.3),
    Aborted("r", 2, 1, 0.4),
    Parked("r", 0.5),
    Resumed("r", 0.6),
    Failed("r", "why", 0.7, True),
    Pong(1.5, 1.6),
    Stepped(StepStats(1, 2, 3, 0.5, 4, 5, 6, 7)),
]


@pytest.fixture
def pipe():
    read, write = os.pipe()
    ends = {read, write}
    yield read, write, ends
    for fd in ends:
        os.close(fd)


def test_every_message_survives_the_wire():
    assert unpack(pack(BATCH)) == BATCH


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 300), max_size=8))
def test_frames_survive_any_cut(payloads, cuts):
    stream = b"".join(map(frame, payloads))
    at = sorted(cut % (len(stream) + 1) for cut in cuts)
    frames, out = FrameReader(), []
    for start, end in zip([0, *at], [*at, len(stream)], strict=True):
        out += frames.feed(stream[start:end])
    assert out == payloads


@pytest.mark.parametrize("payload", [b"", b"nonsense", b"\x80\x05K\x01."])
def test_what_is_no_batch_is_refused(payload):
    with pytest.raises(HostError, match="no batch"):
        unpack(payload)


def test_a_mailbox_gives_what_has_arrived_and_stop_at_the_end(pipe):
    read, write, ends = pipe
    mailbox = PipeMailbox(read)
    assert mailbox.take() == []
    whole = frame(pack([Abort("a"), Abort("b")]))
    os.write(write, whole + whole[:7])
    mailbox.wait()
    assert mailbox.take() == [Abort("a"), Abort("b")]
    os.write(write, whole[7:])
    os.close(write)
    ends.discard(write)
    assert mailbox.take() + mailbox.take() == [Abort("a"), Abort("b"), Stop()]


def test_a_full_pipe_blocks_no_sender_and_loses_nothing(pipe):
    read, write, ends = pipe
    outbox = Outbox(write)
    payloads = [bytes([n]) * 40_000 for n in range(20)]  # a pipe holds 64 KiB
    for payload in payloads:
        outbox.send(frame(payload))
    frames, out = FrameReader(), []
    while len(out) < len(payloads):
        out += frames.feed(os.read(read, 1 << 16))
    assert out == payloads
    outbox.close()
    ends.discard(write)
    assert not [thread for thread in threading.enumerate() if thread.name == "lab-engine-outbox"]


def test_closing_a_stuck_outbox_drops_its_backlog(pipe):
    _, write, ends = pipe
    outbox = Outbox(write)
    outbox.send(b"x" * 1_000_000)
    outbox.close()
    ends.discard(write)


def test_a_reader_that_is_gone_is_no_error_for_the_sender(pipe):
    read, write, ends = pipe
    outbox = Outbox(write)
    os.close(read)
    ends.discard(read)
    outbox.send(b"a")
    outbox.send(b"b")
    outbox.close()
    ends.discard(write)
