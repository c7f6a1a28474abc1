"""`lab serve` as its user meets it: a process, its output, its signals, its exit code."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import psutil
import pytest
from click.testing import CliRunner

from lab.cli.serve import command

SMALL = ("--capacity", "1", "--socket-send-buffer", "4096", "--write-high-water", "0")
END = "data: [DONE]\n\n\r\n0\r\n\r\n"  # the last event, then the empty chunk that completes the response
PROMPT = {"model": "lab-1m", "prompt": "The operator", "ignore_eos": True, "temperature": 0}


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A `lab serve` on a free port: the process, its URL, its second line."""
    arguments = [sys.executable, "-m", "lab", "serve", "--port", "0", "--model", "lab-1m", *options]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        found = re.search(r"http://[\d.]+:\d+", first)
        assert found, process.communicate()
        yield process, found[0], second
    finally:
        process.kill()
        process.communicate()


@contextmanager
def stalled(url: str) -> Iterator[Callable[[], str]]:
    """A stream whose reader has stopped after its first byte, so that it cannot end; the call reads the rest."""
    body = json.dumps(PROMPT | {"stream": True, "max_tokens": 1000}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect((host, int(port)))
        client.sendall(head.encode() + body)
        assert client.recv(1)

        def rest() -> str:
            parts = []
            while part := client.recv(65536):
                parts.append(part)
            return b"".join(parts).decode()

        yield rest


def finish(process: subprocess.Popen[str]) -> int:
    return process.wait(timeout=30)


def test_it_says_where_it_is_and_what_to_type() -> None:
    with serving() as (process, url, second):
        assert second.startswith(f"curl -N {url}/v1/chat/completions")
        answer = httpx.post(f"{url}/v1/completions", json=PROMPT | {"max_tokens": 4}, timeout=30)
        assert answer.json()["usage"]["completion_tokens"] == 4
        (engine,) = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGTERM)
        assert finish(process) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert not engine.is_running()


def test_sigterm_drains_what_runs_and_refuses_what_comes() -> None:
    with serving(*SMALL) as (process, url, _), stalled(url) as rest:
        process.send_signal(signal.SIGTERM)
        _until_draining(url)
        refused = httpx.post(f"{url}/v1/completions", json=PROMPT)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["code"] == "draining"
        text = rest()
        assert '"finish_reason":"length"' in text
        assert text.endswith(END)
        assert finish(process) == 0


@pytest.mark.parametrize(("grace", "signals"), [("0", 1), ("60", 2)])
def test_the_cut_ends_the_rest_with_a_word(grace: str, signals: int) -> None:
    """A grace of 0 cuts at once, and so does a second signal in a long one."""
    with serving(*SMALL, "--grace", grace) as (process, url, _), stalled(url) as rest:
        process.send_signal(signal.SIGINT)
        if signals == 2:
            _until_draining(url)
            process.send_signal(signal.SIGINT)
        text = rest()
        assert '"code":"drain"' in text
        assert text.endswith(END)
        assert finish(process) == 0


def test_a_killed_engine_leaves_one_ending_for_each_request() -> None:
    with serving(*SMALL) as (process, url, _), stalled(url) as rest:
        (engine,) = psutil.Process(process.pid).children()
        engine.kill()
        text = rest()
        assert '"code":"worker_lost"' in text
        assert text.endswith(END)
        assert httpx.get(f"{url}/readyz").status_code == 503
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert "llm_slots_free 0.0" in httpx.get(f"{url}/metrics").text
        process.send_signal(signal.SIGTERM)
        assert finish(process) == 1
        assert process.stderr is not None
        assert process.stderr.read().splitlines()[-1].startswith("Error: the engine was lost")


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = subprocess.run(
            [sys.executable, "-m", "lab", "serve", "--port", port], capture_output=True, text=True, timeout=60
        )
    assert run.returncode == 1
    assert run.stderr == f"Error: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--capacity", "4", "--low", "4"], "low"),
        (["--model", "nothing"], "nothing"),
        (["--flush-timeout", "0"], "flush_timeout"),
        (["--policy", "drop"], "policy"),
        (["--port", "99999"], "port"),
        (["--socket-send-buffer", "99999999999"], "socket_send_buffer must be between 1 and 2147483647"),
        (["--slots", "99999"], "slots must be between 1 and 4096"),
        (["--threads", "99999"], "threads must be between 1 and 1024"),
        (["--max-len", "99999999"], "max_len must be between 1 and"),
        (["--app", "two words"], "apps must be ids"),
        (["--grace", "nan"], "grace"),
        (["--ping", "inf"], "ping"),
        (["--ttft-timeout", "nan"], "--ttft-timeout"),
    ],
)
def test_bad_options_are_one_line(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(command, ["--port", "0", *arguments])
    assert result.exit_code != 0
    assert words in result.output.splitlines()[-1]
    assert "Traceback" not in result.output


def test_help_shows_an_example() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "Example: lab serve" in result.output


def _until_draining(url: str) -> None:
    """Until the signal has arrived."""
    while httpx.get(f"{url}/readyz").status_code != 503:
        pass
