"""`lab bench trace`: a whole sweep of traces on the grid, against one simulation per cell.

The sweep holds all six policies, every pair of marks up to capacity 5, ten deadlines and every reader of
six ticks. The other sides are too slow for all of it: they run a random sample of its cells, the same in
each pair, and each result is compared with the grid's.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from lab.bench.simpy_trace import SimpyTrace, load_simpy
from lab.bench.stats import MIN_PAIRS, paired_ratio
from lab.core.endings import Reason
from lab.core.errors import LabError
from lab.core.grid import REASONS, Grid, all_patterns, run_grid
from lab.core.trace import POLICIES, TraceSettings, run_trace
from lab.evidence import EvidenceError, record

TARGET = 300.0  # times the cells of SimPy in the same time
LENGTH, TOKENS, SAMPLE, SEED = 6, "ABCDEFG", 120, 1
MARKS: tuple[tuple[int | None, int | None], ...] = (
    *((high, low) for high in range(1, 6) for low in range(high)),
    (None, None),
)
DEADLINES: tuple[int | None, ...] = (*range(9), None)
EVIDENCE = "01_one_slow_client/bench_trace.json"
Figures = tuple[int, int, int, int, int, Reason]
Cell = tuple[int, int, int, int]  # policy, marks, deadline, reader


class Disagreement(LabError):
    """Two simulators gave different figures for the same settings: then no speed matters."""


def sweep() -> list[Grid]:
    """The whole sweep, one grid for each policy."""
    high, low = zip(*MARKS, strict=True)
    readers = all_patterns(LENGTH)
    return [
        run_grid(high, DEADLINES, readers, low=low, policy=policy, tokens=len(TOKENS)) for policy in POLICIES
    ]


def settings_of(cell: Cell, readers: npt.NDArray[np.int16]) -> TraceSettings:
    """The settings of one cell of the sweep."""
    policy, marks, deadline, reader = cell
    capacity, low = MARKS[marks]
    drain = tuple(readers[reader].tolist())
    return TraceSettings(capacity, drain, DEADLINES[deadline], low, POLICIES[policy], TOKENS)


def scalar(settings: TraceSettings) -> Figures:
    """One cell by `run_trace`."""
    run = run_trace(settings)
    return (len(run.generated), len(run.sent), len(run.dropped), len(run.paused), run.end, run.reason)


def measure(seconds: float = 10.0) -> dict[str, Any]:
    """The raw samples of a bench of about `seconds`, at least `MIN_PAIRS` turns: cells per second of each side.

    :raises Disagreement: when a cell of the sample differs between two sides
    """
    simpy = load_simpy()
    readers = all_patterns(LENGTH)
    cells = _sample(len(readers))
    settings = [settings_of(cell, readers) for cell in cells]
    sides: dict[str, Callable[[TraceSettings], Figures]] = {"scalar": scalar}
    if simpy is not None:
        sides["simpy"] = lambda one: SimpyTrace(simpy, one).run()
    rates: dict[str, list[float]] = {"grid": [], **{name: [] for name in sides}}
    start = time.perf_counter()
    while len(rates["grid"]) < MIN_PAIRS or time.perf_counter() - start < seconds:
        spent, grids = _timed(sweep)
        rates["grid"].append(sum(grid.sent.size for grid in grids) / spent)
        expected = [_figures(grids, cell) for cell in cells]
        for name, side in sides.items():
            spent, found = _timed(lambda side=side: [side(one) for one in settings])  # type: ignore[misc]
            rates[name].append(len(settings) / spent)
            if found != expected:
                raise Disagreement(f"{name} differs from the grid")
    return {"rates": rates}


def claims(rates: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """A recipe for evidence: median cells per second, and the grid's ratio to each other side."""
    report: dict[str, Any] = {f"{name}_cells_per_second": round(median(of)) for name, of in rates.items()}
    for name in rates:
        if name != "grid":
            ratio = paired_ratio(rates["grid"], rates[name], TARGET)
            report[f"grid_to_{name}"] = ratio.to_json_dict()
    return report


def _sample(readers: int) -> list[Cell]:
    chance = random.Random(SEED)
    shape = (len(POLICIES), len(MARKS), len(DEADLINES), readers)
    return [tuple(chance.randrange(size) for size in shape) for _ in range(SAMPLE)]  # type: ignore[misc]


def _figures(grids: Sequence[Grid], cell: Cell) -> Figures:
    grid, rest = grids[cell[0]], cell[1:]
    counts = (grid.generated, grid.sent, grid.dropped, grid.paused, grid.end)
    generated, sent, dropped, paused, end = (int(count[rest]) for count in counts)
    return generated, sent, dropped, paused, end, REASONS[grid.reason[rest]]


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


@click.command(name="trace")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(0), help="About how long.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--record", "as_evidence", is_flag=True, help=f"Write the samples to evidence/{EVIDENCE}.")
def command(seconds: float, as_json: bool, as_evidence: bool) -> None:
    """Sweep traces on the grid, and one by one; with SimPy too where it is installed.

    Example: lab bench trace --seconds 10
    """
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is not a finite number.", param_hint="--seconds")
    samples = measure(seconds)
    try:
        if as_evidence:
            title = "A sweep of traces on the grid against one simulation per cell, in cells per second"
            record(
                EVIDENCE,
                kind="measured",
                title=title,
                recipe="lab.bench.trace:claims",
                inputs=samples,
                seed=SEED,
            )
    except EvidenceError as error:
        raise click.ClickException(str(error)) from error
    report = claims(**samples)
    click.echo(json.dumps(report, indent=2) if as_json else "\n".join(_lines(report)))


def _lines(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, value in report.items():
        if isinstance(value, dict):
            bounds = f"[{value['low']:.0f}, {value['high']:.0f}]"
            lines.append(
                f"{name}: {value['median']:.0f} {bounds}, target {value['target']:g}: {value['verdict']}"
            )
        else:
            lines.append(f"{name}: {value:,}")
    if "simpy_cells_per_second" not in report:
        lines.append("SimPy is not installed: pip install simpy adds it to the comparison")
    return lines
