"""The bench of the server: its claims from samples, its client, and the command on a small model."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from lab.bench.served import served
from lab.bench.server_report import lines, summarise
from lab.bench.streams import Endpoint, StreamFailed, run_streams
from lab.cli.bench import command
from lab.server.wire import Wire


def side(seconds: float, ttft: float = 0.005) -> dict[str, list[float]]:
    return {"seconds": [seconds] * 15, "ttft": [ttft] * 30}


def test_claims_come_from_the_samples() -> None:
    runs = {"8": {"server": side(1.0), "engine": side(0.8), "against": side(1.5, 0.016)}}
    row = summarise(model="lab-1m", steps=100, runs=runs, against="other")["streams"]["8"]
    assert row["server"] == {"tokens_per_second": 800.0, "ttft_p50_ms": 5.0}
    assert row["engine"]["tokens_per_second"] == 1000.0
    assert row["against"]["ttft_p50_ms"] == 16.0
    assert (row["of_engine"]["median"], row["of_engine"]["target"], row["of_engine"]["verdict"]) == (
        0.8,
        0.75,
        "met",
    )
    assert (row["of_against"]["median"], row["of_against"]["target"]) == (1.5, 1.3)


def test_a_slow_server_misses_and_few_pairs_say_nothing() -> None:
    slow = {"1": {"server": side(2.0), "engine": side(1.0)}}
    report = summarise(model="lab-1m", steps=100, runs=slow)
    assert report["streams"]["1"]["of_engine"]["verdict"] == "missed"
    few = {"1": {name: {"seconds": [1.0] * 3, "ttft": [0.1]} for name in ("server", "engine")}}
    report = summarise(model="lab-1m", steps=100, runs=few)
    assert report["streams"]["1"]["of_engine"]["verdict"] == "unknown"
    assert any("at least 0.75: unknown" in line for line in lines(report))


def test_an_address_may_end_in_v1_and_must_be_plain_http() -> None:
    assert Endpoint.of("http://h:81/v1/") == Endpoint.of("http://h:81") == Endpoint("h", 81)
    assert Endpoint.of("http://h/x/v1") == Endpoint("h", 80, "/x")
    for url in ("h:81", "https://h", "ftp://h", "", "http://"):
        with pytest.raises(ValueError, match="need an address"):
            Endpoint.of(url)


# The client, on a server that sends what the test says


def stream_bytes(used: int | None = 2, tail: bytes = b"data: [DONE]\n\n", status: str = "200 OK") -> bytes:
    wire = Wire("completion", "id", 0, "m", "fp", True)
    parts = [wire.delta(" Hé"), wire.delta("llo"), wire.finish("length")]
    if used is not None:
        usage = {"prompt_tokens": 1, "completion_tokens": used, "total_tokens": 1 + used}
        parts.append(json.dumps({"choices": [], "usage": usage}))
    body = b": ping\n\n" + b"".join(f"data: {part}\n\n".encode() for part in parts) + tail
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:37], body[37:]))
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + chunks + b"0\r\n\r\n"


@pytest.fixture
def canned() -> Iterator[Callable[[bytes], Endpoint]]:
    """`canned(answer)` gives a server that sends it to everyone, one byte less than 20 at a time, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    answers: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                for start in range(0, len(answers[0]), 19):
                    connection.sendall(answers[0][start : start + 19])

    thread = threading.Thread(target=serve)
    thread.start()

    def make(answer: bytes) -> Endpoint:
        answers.append(answer)
        return Endpoint(*listener.getsockname())

    yield make
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_streams_are_read_to_their_end(canned: Any) -> None:
    run = run_streams(canned(stream_bytes()), [{}, {}, {}], tokens=2)
    assert run.texts == [" Héllo"] * 3
    assert all(0 < first <= run.seconds for first in run.ttft)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (stream_bytes(used=3), "says that it used"),
        (stream_bytes(used=None), "says that it used"),
        (stream_bytes(tail=b""), "without"),
        (stream_bytes(tail=b'data: {"error": {"code": "drain"}}\n\n'), "drain"),
        (stream_bytes(status="503 Busy"), "503"),
        (stream_bytes()[:-40], "broke off"),
        (b"", "broke off"),
        (b"SSH-2.0\r\n\r\n", "broke off"),
    ],
    ids=["too many", "no usage", "no end", "error", "503", "cut", "closed", "not HTTP"],
)
def test_what_is_no_whole_stream_is_no_sample(canned: Any, answer: bytes, message: str) -> None:
    with pytest.raises(StreamFailed, match=message):
        run_streams(canned(answer), [{}], tokens=2)


def test_nobody_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StreamFailed, match="failed"):
        run_streams(Endpoint("127.0.0.1", port), [{}], tokens=2)


# The command


def test_the_command_prints_every_side() -> None:
    with served("lab-1m", "cpu", slots=2) as other:
        result = CliRunner().invoke(
            command,
            [
                *(
                    "server",
                    "--model",
                    "lab-1m",
                    "--streams",
                    "2",
                    "--steps",
                    "6",
                    "--pairs",
                    "1",
                    "--json",
                ),
                *("--against", f"http://{other.host}:{other.port}/v1"),
            ],
        )
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["against"] == "lab-1m"
    row = report["streams"]["2"]
    for ratio in (row["of_engine"], row["of_against"]):
        assert (ratio["pairs"], ratio["verdict"]) == (1, "unknown")
    assert all(row[side]["ttft_p50_ms"] > 0 for side in ("server", "engine", "against"))


def test_a_server_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(StreamFailed, match=r"lab serve did not start: .*lab-none"),
        served("lab-none", "cpu", 1),
    ):
        pass


@pytest.mark.parametrize(
    "arguments",
    [["--model", "lab-none"], ["--pairs", "0"], ["--streams", "many"], ["--steps", "-1"]],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_a_code(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, ["server", *arguments])
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    assert result.output.strip().splitlines()[-1].startswith("Error: ")
