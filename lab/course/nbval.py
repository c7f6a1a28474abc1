"""The one place that says how nbval is run, for the chapters and for the grader."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from lab.course.kernel import environment

CELL_TIMEOUT = 60  # seconds

# lax: only cells with the tag nbval-check-output are compared
# current-env: this interpreter, whatever kernel the file names
# no:randomly: every cell needs those before it
# quick_nbformat: it must come before nbval, which imports nbformat
# nbval_plugin: private sockets, and a dead kernel is noticed at once
# noconftest, -c: no file beside a notebook may change what a result means
NBVAL_FLAGS = (
    "--nbval-lax",
    "--nbval-current-env",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "-p",
    "lab.course.quick_nbformat",
    "-p",
    "lab.course.nbval_plugin",
    "--noconftest",
    "-c",
    str(Path(__file__).with_name("nbval.ini")),
)


def nbval_command(
    targets: Sequence[Path], *, cell_timeout: float = CELL_TIMEOUT, jobs: int = 1, extra: Sequence[str] = ()
) -> list[str]:
    """The command line that runs `targets` under nbval.

    With `jobs` > 1, whole notebooks are spread over processes (their cells never are: loadscope).
    """
    command = [sys.executable, "-m", "pytest", *NBVAL_FLAGS, f"--nbval-cell-timeout={cell_timeout:g}"]
    if jobs > 1 and find_spec("xdist") is not None:
        command += ["-n", str(jobs), "--dist", "loadscope"]
    return [*command, *extra, "--rootdir", str(targets[0].parent), *map(str, targets)]


def run_nbval(
    targets: Sequence[Path],
    root: Path,
    *,
    cell_timeout: float = CELL_TIMEOUT,
    jobs: int = 1,
    extra: Sequence[str] = (),
    capture: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run notebooks under nbval against the workbook at `root`; the exit status is pytest's."""
    command = nbval_command(targets, cell_timeout=cell_timeout, jobs=jobs, extra=extra)
    with tempfile.TemporaryDirectory() as scratch:
        return subprocess.run(
            command, env=environment(root, Path(scratch)), text=True, capture_output=capture, check=False
        )
