"""One slow client, one bounded queue, one deadline, exactly one ending.

This file is the seed of the workbook. It needs nothing but Python and takes five minutes to read:

1. `ResourceOwner` holds what a request costs and gives it back once, however many signals arrive.
2. `simulate` runs one request tick by tick: an ending first, then the transport drains, then the model
   generates at most one token.
3. `summarise` turns three finished requests into counts, latencies and goodput.

Run it without options to see every figure of chapter 01. Or play with your own reader:

    python reliability_observability.py --capacity 3 --drain 1,0,0,0,1,0,1,0,0 --deadline 8

Every check is an explicit `raise`. An `assert` disappears under `python -O`, and whatever was written
inside it disappears too: with it would go the release of the request's memory.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

TOKENS = "ABCDEFG"
DRAIN = (1, 0, 0, 0, 1, 0, 1, 0, 0)  # how many tokens the reader takes in each tick
DEADLINE = 8
MAX_TICKS = 1000


class InvariantBroken(Exception):
    """Something that must hold for every run did not hold for this one."""


def require(condition: bool, message: str) -> None:
    """Like `assert`, but it stays under `python -O`."""
    if not condition:
        raise InvariantBroken(message)


# --- one owner, one ending ------------------------------------------------------------------------


@dataclass
class ResourceOwner:
    """What one request holds on the server. `finish` gives it back, once."""

    kv_blocks: int = 4
    slots: int = 1
    reason: str | None = None
    cleanup_count: int = 0
    late: list[str] = field(default_factory=list)

    def finish(self, reason: str) -> bool:
        """The first caller wins and cleans up; every later one learns that it came too late."""
        if self.reason is not None:
            self.late.append(reason)
            return False
        self.reason = reason
        self.kv_blocks = 0
        self.slots = 0
        self.cleanup_count += 1
        return True


# --- the trace ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One simulated request: four strings of tokens, the ticks it was paused, and how it ended."""

    generated: str
    sent: str
    dropped: str
    paused: list[int]
    ended: int  # the tick of the ending
    rows: list[tuple[int, str, str]]  # tick, everything sent so far, what waits in the queue
    owner: ResourceOwner


def simulate(
    capacity: int | None,
    drain: tuple[int, ...] = DRAIN,
    deadline: int | None = DEADLINE,
    low: int | None = None,
) -> Run:
    """Runs TOKENS against a reader who takes `drain[tick]` tokens in each tick, and 0 after that.

    capacity: how many tokens may wait; None is no bound. At the bound the request is parked, and it is
        armed again when no more than `low` tokens wait (by default one less than the capacity).
    deadline: the tick that ends the request. The client cancels in the same tick, too late.
        None: the server gives up on the reader in the first tick after the pattern, as slow_consumer.

    :raises ValueError: for values that describe no run
    """
    low = _check(capacity, drain, deadline, low)
    owner = ResourceOwner()
    queue = sent = generated = ""
    paused: list[int] = []
    rows: list[tuple[int, str, str]] = []
    parked = False
    last = len(drain) if deadline is None else deadline
    for tick in range(last + 1):
        # 1. An ending comes first: no token follows it.
        if tick == last:
            owner.finish("slow_consumer" if deadline is None else "overall_deadline")
            owner.finish("client_cancel")
        if owner.reason is None:
            # 2. The transport drains.
            take = drain[tick] if tick < len(drain) else 0
            sent, queue = sent + queue[:take], queue[take:]
            if generated == TOKENS and not queue:
                owner.finish("stop")
        if owner.reason is None and generated != TOKENS:
            # 3. The model generates, unless the reader is too far behind.
            if capacity is not None:
                parked = len(queue) > low if parked else len(queue) >= capacity
            if parked:
                paused.append(tick)
            else:
                token = TOKENS[len(generated)]
                generated, queue = generated + token, queue + token
        rows.append((tick, sent, queue))
        if owner.reason is not None:
            break
    run = Run(generated, sent, queue, paused, rows[-1][0], rows, owner)
    _check_run(run, capacity)
    return run


def _check(capacity: int | None, drain: tuple[int, ...], deadline: int | None, low: int | None) -> int:
    """The low mark of a run that makes sense; ValueError for all others."""
    if capacity is not None and capacity < 1:
        raise ValueError(f"capacity must be at least 1, not {capacity}")
    if not 1 <= len(drain) <= MAX_TICKS or any(not 0 <= take <= 3 for take in drain):
        raise ValueError(f"drain must be 1 to {MAX_TICKS} numbers from 0 to 3")
    if deadline is not None and not 0 <= deadline <= MAX_TICKS:
        raise ValueError(f"deadline must lie between 0 and {MAX_TICKS}, not {deadline}")
    if capacity is None:
        if low is not None:
            raise ValueError("low needs a capacity")
        return 0
    if low is not None and not 0 <= low < capacity:
        raise ValueError(f"low must lie between 0 and {capacity - 1}, not {low}")
    return capacity - 1 if low is None else low


def _check_run(run: Run, capacity: int | None) -> None:
    """What holds for every run, whatever the reader does."""
    owner = run.owner
    require(owner.cleanup_count == 1, f"cleaned up {owner.cleanup_count} times")
    require(owner.kv_blocks == 0 and owner.slots == 0, "the request still holds memory")
    require(run.generated == run.sent + run.dropped, "a token was lost or made twice")
    require(TOKENS.startswith(run.sent), "the reader got the tokens out of order")
    if capacity is not None:
        require(max(len(queue) for _, _, queue in run.rows) <= capacity, "the queue outgrew its bound")


# --- telemetry ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FinishedRequest:
    """What is known of a request after its end. Times in seconds of one clock."""

    request_id: str
    reason: str
    arrived: float
    token_times: tuple[float, ...]

    @property
    def ttft(self) -> float | None:
        """Time to first token; None if there was none."""
        return self.token_times[0] - self.arrived if self.token_times else None

    @property
    def tpot(self) -> float | None:
        """Mean time between tokens; None with fewer than two, because null is not zero."""
        if len(self.token_times) < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) / (len(self.token_times) - 1)


REQUESTS = (
    FinishedRequest("req-a", "stop", 0, (2, 3, 4)),
    FinishedRequest("req-b", "stop", 0, (5, 8)),
    FinishedRequest("req-c", "client_cancel", 1, ()),
)


@dataclass(frozen=True)
class Summary:
    """The same requests as metrics (few label sets) and as traces (one per request)."""

    finishes: dict[str, int]
    ttft: list[float]
    tpot: list[float]
    good: int
    goodput: float  # requests per second
    metric_labels: list[dict[str, str]]
    trace_attributes: list[dict[str, str]]


def summarise(
    requests: tuple[FinishedRequest, ...], window: float, ttft_slo: float, tpot_slo: float
) -> Summary:
    """Counts, samples and goodput of the requests that finished in `window` seconds.

    Good is a normal end within both objectives. A request id is an attribute of a trace. It is never a
    label of a metric: each of its values would start a time series of its own.
    """
    finishes = Counter(request.reason for request in requests)
    good = sum(
        request.reason == "stop"
        and request.ttft is not None
        and request.ttft <= ttft_slo
        and (request.tpot is None or request.tpot <= tpot_slo)
        for request in requests
    )
    labels = [{"reason": reason} for reason in sorted(finishes)]
    require(not any("request_id" in label for label in labels), "a request id became a metric label")
    return Summary(
        finishes=dict(finishes),
        ttft=[request.ttft for request in requests if request.ttft is not None],
        tpot=[request.tpot for request in requests if request.tpot is not None],
        good=good,
        goodput=good / window,
        metric_labels=labels,
        trace_attributes=[{"request_id": r.request_id, "reason": r.reason} for r in requests],
    )


# --- what is printed ------------------------------------------------------------------------------


def print_figures() -> None:
    """Every figure of chapter 01, one fact a line."""
    unbounded, bounded, wide = simulate(None), simulate(3), simulate(3, low=1)
    require(bounded.sent == unbounded.sent, "the bounded queue changed what the reader got")
    require(len(bounded.dropped) <= 3 < len(unbounded.dropped), "the bound did not bound the waste")
    print(f"trace tokens={TOKENS} drain={list(DRAIN)} deadline={DEADLINE}")
    print_run("unbounded", unbounded)
    print_run("bounded_capacity_3", bounded)
    print_run("bounded_capacity_3_low_1", wide)
    print_waste("unbounded", unbounded)
    print_waste("bounded_capacity_3", bounded)
    print_ending(bounded)
    summary = summarise(REQUESTS, window=10, ttft_slo=3, tpot_slo=2)
    print("finishes " + " ".join(f"{reason}={count}" for reason, count in summary.finishes.items()))
    print(f"ttft_samples={_numbers(summary.ttft)} seconds")
    print(f"tpot_samples={_numbers(summary.tpot)} seconds")
    print(f"goodput={summary.goodput:g} request/s good={summary.good} of={len(REQUESTS)} window=10 seconds")
    print(f"metric_labels={summary.metric_labels}")
    print(f"trace_attributes={summary.trace_attributes}")


def print_run(name: str, run: Run) -> None:
    """The tokens of a run and the ticks in which it was paused."""
    print(f"{name} generated={run.generated} sent={run.sent} dropped={run.dropped} paused={run.paused}")


def print_waste(name: str, run: Run) -> None:
    """The share of the generated tokens that nobody received."""
    made, lost = len(run.generated), len(run.dropped)
    print(f"{name} waste={f'{lost}/{made}={lost / made:.0%}' if made else 'none, nothing was generated'}")


def print_ending(run: Run) -> None:
    """Who ended the request, who came too late, and what is still held."""
    owner = run.owner
    print(f"ending reason={owner.reason} tick={run.ended}")
    print(f"late_signals={owner.late} no_ops={len(owner.late)}")
    print(f"cleanup_count={owner.cleanup_count}")
    print(f"kv_blocks={owner.kv_blocks} slots={owner.slots}")


def print_own(capacity: int | None, drain: tuple[int, ...], deadline: int | None) -> None:
    """One run tick by tick, beside the same reader without a bound."""
    run = simulate(capacity, drain, deadline)
    name = "unbounded" if capacity is None else f"bounded_capacity_{capacity}"
    for tick, sent, queue in run.rows:
        print(f"tick={tick} sent={sent} queue={queue}{' paused' if tick in run.paused else ''}")
    for label, shown in {name: run, "unbounded": simulate(None, drain, deadline)}.items():
        print_run(label, shown)
        print_waste(label, shown)
    print_ending(run)


def _numbers(values: list[float]) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values) + "]"


# --- the command line -----------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """An argument parser that answers nonsense with one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _capacity(text: str) -> int | None:
    return None if text == "unbounded" else _whole(text, "a whole number, or: unbounded")


def _deadline(text: str) -> int | None:
    return None if text == "none" else _whole(text, "a whole number of ticks, or: none")


def _drain(text: str) -> tuple[int, ...]:
    parts = text.split(",") if "," in text else list(text)
    return tuple(_whole(part.strip(), "numbers from 0 to 3, like 1,0,0,2 or 1002") for part in parts)


def _whole(text: str, wanted: str) -> int:
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return int(text)


def main(argv: list[str] | None = None) -> None:
    """Prints the figures of chapter 01, or, with options, your own run."""
    parser = Parser(description=main.__doc__, allow_abbrev=False)
    parser.add_argument("--capacity", type=_capacity, help="tokens that may wait: 1, 2, ... or unbounded")
    parser.add_argument("--drain", type=_drain, help="tokens read per tick, 0 to 3: 1,0,0,2 or 1002")
    parser.add_argument("--deadline", type=_deadline, help="the tick that ends the request, or none")
    parser.set_defaults(capacity=3, drain=DRAIN, deadline=DEADLINE)
    argv = sys.argv[1:] if argv is None else argv
    given = parser.parse_args(argv)
    try:
        if argv:
            print_own(given.capacity, given.drain, given.deadline)
        else:
            print_figures()
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
