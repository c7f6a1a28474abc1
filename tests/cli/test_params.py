"""The types of command-line values."""

from __future__ import annotations

import click
import pytest

from lab.cli.params import FiniteFloat


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "x", "-1", "11"])
def test_a_finite_float_is_within_its_range(value: str) -> None:
    with pytest.raises(click.BadParameter):
        FiniteFloat(0, 10).convert(value, None, None)


def test_a_finite_float_without_bounds_is_still_finite() -> None:
    assert FiniteFloat().convert("-2.5", None, None) == -2.5
    with pytest.raises(click.BadParameter, match="nan is not a finite number"):
        FiniteFloat().convert("nan", None, None)
