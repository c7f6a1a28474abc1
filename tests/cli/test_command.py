"""The `lab` command as a user meets it: help at once, one clear line on bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.cli import COMMANDS, doctor, group


def run_lab(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *args], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_names_every_command_and_loads_no_torch() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom lab.cli import group\n"
        "print(CliRunner().invoke(group, ['--help']).output)\n"
        "heavy = {'torch', 'starlette', 'uvicorn', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "heavy: []" in done.stdout
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(group, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"lab {name}" in result.output
    assert "Example" in result.output


def test_an_unknown_command_is_one_clear_error_and_exit_code_2() -> None:
    done = run_lab("sereve")
    assert done.returncode == 2
    assert "No such command 'sereve'" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_reports_every_package_and_exits_zero_when_all_is_well() -> None:
    result = CliRunner().invoke(doctor.command, ["--json"])
    findings = {finding["name"]: finding for finding in json.loads(result.output)}
    assert set(doctor.PACKAGES) <= set(findings)
    assert result.exit_code == (0 if all(f["ok"] for f in findings.values()) else 1)


def test_doctor_says_how_to_fix_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    result = CliRunner().invoke(doctor.command, [])
    assert result.exit_code == 1
    assert "FAIL no-such-package: missing" in result.output
    assert "fix: run `make .venv`" in result.output


def test_a_check_that_crashes_becomes_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_flux() -> doctor.Finding:
        raise OSError("no flux")

    monkeypatch.setattr(doctor, "CHECKS", (check_flux,))
    (finding,) = doctor.examine()
    assert (finding.name, finding.ok, finding.detail) == ("flux", False, "OSError: no flux")


def test_doctor_sees_a_folder_that_would_shadow_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path
    (root / "lab").mkdir()
    monkeypatch.chdir(root)
    finding = doctor.check_import_path()
    assert not finding.ok
    assert "rename" in finding.fix
