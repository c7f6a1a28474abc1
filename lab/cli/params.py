"""Types of command-line values that click itself lacks."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteFloat(click.FloatRange):
    """A number within a range, and finite. Not a number compares with nothing, so no range alone keeps it out."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """:raises click.BadParameter: when the value is no number, or not one of these."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
