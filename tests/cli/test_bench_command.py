"""`lab bench`: every bench that it lists is there."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from lab.cli.bench import BENCHES, command


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(command, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Example: " in result.output


def test_the_help_lists_them_all() -> None:
    listed = CliRunner().invoke(command, ["--help"]).output
    assert all(name in listed for name in BENCHES)


def test_a_bench_that_is_none_is_one_line() -> None:
    result = CliRunner().invoke(command, ["nothing"])
    assert result.exit_code == 2
    assert "No such command 'nothing'" in result.output.splitlines()[-1]
