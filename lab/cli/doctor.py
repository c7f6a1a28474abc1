"""`lab doctor`: one line per thing the workbook needs, OK or FAIL, each FAIL with its fix."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

PACKAGES = ("jupyterlab", "nbval", "torch", "numpy", "matplotlib", "ipywidgets", "httpx", "sse-starlette")
MIN_FREE_BYTES = 1 << 30
MIN_MEMORY_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `fix` is empty when there is nothing to do."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def check_optimize() -> Finding:
    """Under `python -O` every bare assert vanishes; ours are explicit raises, a student's may not be."""
    off = sys.flags.optimize == 0
    return Finding("asserts", off, "on" if off else "off (-O)", "unset PYTHONOPTIMIZE and drop -O")


def check_packages() -> Iterator[Finding]:
    for package in PACKAGES:
        try:
            yield Finding(package, True, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, False, "missing", "run `make .venv`, then use .venv/bin/lab")


def check_import_path() -> Finding:
    """A folder named `lab` in the current directory would shadow the package in every notebook."""
    shadow = Path.cwd() / "lab"
    ours = Path(__file__).resolve().parents[1]
    shadowed = shadow.is_dir() and shadow.resolve() != ours
    return Finding("import lab", not shadowed, str(ours), f"rename {shadow}: it hides the package")


def check_root() -> Finding:
    from lab.course.root import workbook_root

    try:
        return Finding("workbook", True, str(workbook_root()))
    except Exception as error:
        return Finding("workbook", False, str(error), "run inside the checkout, or set LAB_ROOT")


def check_model() -> Finding:
    from lab.model.checkpoint import available, resolve_device

    names = available()
    detail = f"{', '.join(names) or 'none'}; device {resolve_device('auto')}"
    return Finding("model", bool(names), detail, "the weights are missing: reinstall the package")


def check_loopback() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return Finding("loopback", True, "a port can be opened on 127.0.0.1")
    except OSError as error:
        return Finding("loopback", False, str(error), "allow this user to listen on 127.0.0.1")


def check_disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    return Finding("disk", free >= MIN_FREE_BYTES, f"{free / 1e9:.1f} GB free", "free 1 GB here")


def check_memory() -> Finding:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return Finding("memory", True, "unknown on this system")
    return Finding("memory", total >= MIN_MEMORY_BYTES, f"{total / 1e9:.1f} GB", "4 GB or more are needed")


def check_browser() -> Finding:
    """Only the browser tests need one, so its absence is said and is no failure."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return Finding("browser", True, path or "none found: the browser tests will be skipped")


CHECKS: tuple[Callable[[], Finding | Iterator[Finding]], ...] = (
    check_python,
    check_optimize,
    check_packages,
    check_import_path,
    check_root,
    check_model,
    check_loopback,
    check_disk,
    check_memory,
    check_browser,
)


def examine() -> list[Finding]:
    """All findings, in order; a check that itself fails is a finding too."""
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            result = check()
            findings.extend([result] if isinstance(result, Finding) else result)
        except Exception as error:
            name = check.__name__.removeprefix("check_")
            findings.append(Finding(name, False, f"{type(error).__name__}: {error}", "run `make .venv`"))
    return findings


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(as_json: bool) -> None:
    """Check this machine and this checkout; exit 1 if something must be fixed.

    Example: lab doctor
    """
    findings = examine()
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{'OK  ' if finding.ok else 'FAIL'} {finding.name}: {finding.detail}")
            if not finding.ok:
                click.echo(f"     fix: {finding.fix}")
    if not all(finding.ok for finding in findings):
        raise click.exceptions.Exit(1)
