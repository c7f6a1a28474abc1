"""The three times of a stream: its headers, its first text, its ``[DONE]``. One of them alone misleads.

``stream_times`` takes them from a live stream; ``gap_claims`` computes from recorded streams what the moment
of the headers says: the server can send them with the first event, or at admission, before there is a token.

Example: python -m lab.bench.three_times --runs 15
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import click
import httpx

from lab.core.sse import SSEParser
from lab.evidence.record import record
from lab.server.local import LocalServer
from lab.server.settings import ServerSettings

Verdict = Literal["yes", "no", "unknown"]
COMMITS: tuple[Literal["first", "early"], ...] = ("first", "early")
PROMPT = "Operator: the queue is full and nobody reads. " * 40  # long enough that its prefill can be seen


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """Seconds since the request was sent; None for what never came. ``arrivals``: (seconds, bytes, events)."""

    headers: float
    content: float | None
    done: float | None
    arrivals: tuple[tuple[float, int, int], ...]

    @property
    def gap(self) -> float | None:
        """From the headers to the first text: time in which a client looks at a 200 and nothing else."""
        return None if self.content is None else self.content - self.headers


async def stream_times(client: httpx.AsyncClient, url: str, body: Mapping[str, Any]) -> StreamTimes:
    """Streams one chat completion from the server at ``url`` and takes its times."""
    began = time.perf_counter()
    content: float | None = None
    done: float | None = None
    arrivals: list[tuple[float, int, int]] = []
    async with client.stream("POST", f"{url}/v1/chat/completions", json=dict(body)) as response:
        headers = time.perf_counter() - began
        parser = SSEParser()
        async for chunk in response.aiter_bytes():
            now = time.perf_counter() - began
            events = parser.feed(chunk)
            arrivals.append((now, len(chunk), len(events)))
            for event in events:
                if content is None and has_text(event.data):
                    content = now
                if event.data == "[DONE]":
                    done = now
    return StreamTimes(headers, content, done, tuple(arrivals))


def has_text(data: str) -> bool:
    """Whether a chunk of a chat completion carries text: not the role, not the usage, not the end."""
    if not data.startswith("{"):
        return False
    choices = json.loads(data).get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))


def is_later(these: Sequence[float], those: Sequence[float]) -> Verdict:
    """Whether these values lie above those: yes or no when the ranges are apart, else unknown."""
    if min(these) > max(those):
        return "yes"
    return "no" if max(these) < min(those) else "unknown"


def gap_claims(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """A recipe: medians in milliseconds for each commit, and whether an early 200 waits longer for its text."""
    gaps = {name: [run["content"] - run["headers"] for run in rows] for name, rows in runs.items()}
    return {
        "median_ms": {
            name: {what: 1000 * median(run[what] for run in rows) for what in ("headers", "content", "done")}
            for name, rows in runs.items()
        },
        "median_gap_ms": {name: 1000 * median(values) for name, values in gaps.items()},
        "early_headers_come_first": is_later(gaps["early"], gaps["first"]),
    }


async def _sample(runs: int) -> dict[str, list[dict[str, float]]]:
    """Pairs of streams in turns, one from each server; a first pair warms them up."""
    body = {
        "model": "lab-1m",
        "stream": True,
        "max_tokens": 32,
        "messages": [{"role": "user", "content": PROMPT}],
    }
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in COMMITS}
    with ExitStack() as stack:
        servers = {
            commit: stack.enter_context(LocalServer(ServerSettings(slots=2, commit=commit)))
            for commit in COMMITS
        }
        async with httpx.AsyncClient(timeout=30) as client:
            for number in range(runs + 1):
                for commit, server in servers.items():
                    times = await stream_times(client, server.url, body | {"ignore_eos": True})
                    if number and times.content is not None and times.done is not None:
                        row = {"headers": times.headers, "content": times.content, "done": times.done}
                        rows[commit].append(row)
    return rows


@click.command()
@click.option("--runs", type=click.IntRange(min=1), default=15, show_default=True, help="Pairs of streams.")
def command(runs: int) -> None:
    """Record the three times of streams whose headers come with the first event, or at admission.

    Example: python -m lab.bench.three_times --runs 15
    """
    record(
        "10_streaming_over_sse/three_times.json", kind="measured", recipe="lab.bench.three_times:gap_claims",
        title="Headers, first text and [DONE] of a stream, with headers at the first event and at admission",
        inputs={"runs": asyncio.run(_sample(runs))}, command=f"python -m lab.bench.three_times --runs {runs}",
    )  # fmt: skip


if __name__ == "__main__":
    command()
