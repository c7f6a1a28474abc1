"""The first example: what it prints, that -O changes nothing, and how it answers nonsense."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "reliability_observability.py"

FIGURES = """\
trace tokens=ABCDEFG drain=[1, 0, 0, 0, 1, 0, 1, 0, 0] deadline=8
unbounded generated=ABCDEFG sent=AB dropped=CDEFG paused=[]
bounded_capacity_3 generated=ABCDE sent=AB dropped=CDE paused=[3, 5, 7]
bounded_capacity_3_low_1 generated=ABCDE sent=AB dropped=CDE paused=[3, 4, 5]
unbounded waste=5/7=71%
bounded_capacity_3 waste=3/5=60%
ending reason=overall_deadline tick=8
late_signals=['client_cancel'] no_ops=1
cleanup_count=1
kv_blocks=0 slots=0
finishes stop=2 client_cancel=1
ttft_samples=[2, 5] seconds
tpot_samples=[1, 3] seconds
goodput=0.1 request/s good=1 of=3 window=10 seconds
metric_labels=[{'reason': 'client_cancel'}, {'reason': 'stop'}]
trace_attributes=[{'request_id': 'req-a', 'reason': 'stop'}, {'request_id': 'req-b', 'reason': 'stop'}, \
{'request_id': 'req-c', 'reason': 'client_cancel'}]
"""

OWN = """\
tick=0 sent= queue=A
tick=1 sent= queue=A paused
tick=2 sent=A queue=B
tick=3 sent=A queue=B
bounded_capacity_1 generated=AB sent=A dropped=B paused=[1]
bounded_capacity_1 waste=1/2=50%
unbounded generated=ABC sent=AB dropped=C paused=[]
unbounded waste=1/3=33%
ending reason=slow_consumer tick=3
late_signals=['client_cancel'] no_ops=1
cleanup_count=1
kv_blocks=0 slots=0
"""


def run(*options: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    # -I: the installed package must not be what makes it work
    command = [sys.executable, "-I", *python, str(SCRIPT), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ})


@pytest.mark.parametrize("python", [(), ("-O",), ("-OO",)], ids=["plain", "-O", "-OO"])
def test_prints_exactly_the_figures_of_chapter_01(python: tuple[str, ...]) -> None:
    result = run(python=python)
    assert (result.stdout, result.stderr, result.returncode) == (FIGURES, "", 0)


@pytest.mark.parametrize("drain", ["002", "0,0,2", " 0, 0, 2"])
def test_plays_with_your_own_reader(drain: str) -> None:
    result = run("--capacity", "1", "--drain", drain, "--deadline", "none", python=("-O",))
    assert (result.stdout, result.stderr, result.returncode) == (OWN, "", 0)


def test_a_run_that_generates_nothing_has_no_waste() -> None:
    result = run("--deadline", "0")
    assert "bounded_capacity_3 waste=none, nothing was generated" in result.stdout.splitlines()
    assert result.returncode == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--capacity", "0"),
        ("--capacity", "-1"),
        ("--capacity", "three"),
        ("--capacity", "1.5"),
        ("--capacity", ""),
        ("--capacity", "٣"),
        ("--drain", ""),
        ("--drain", "1,4"),
        ("--drain", "1,,0"),
        ("--drain", "-1,0"),
        ("--drain", "0" * 1001),
        ("--deadline", "-1"),
        ("--deadline", "1001"),
        ("--deadline", "9" * 50),
        ("--deadline", "soon"),
        ("--dead", "3"),
        ("extra",),
    ],
    ids=" ".join,
)
def test_nonsense_gets_one_line_and_exit_2(options: tuple[str, ...]) -> None:
    result = run(*options)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("reliability_observability.py: ")
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 400


def test_uses_the_standard_library_and_no_assert() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    imported = {
        name.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    imported |= {
        node.module.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert imported <= sys.stdlib_module_names
    assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree))
