"""Values as a check compares them: the answer counts, not the type that carries it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any


def plain(value: Any) -> Any:
    """Numpy scalars and arrays, fractions and decimals as the plain Python values that they stand for.

    Lists and tuples keep their kind and get plain elements; everything else is returned as it is, so that a
    check can still say what is wrong with it.
    """
    if isinstance(value, Fraction | Decimal):
        return float(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if type(value) in (list, tuple):
        return type(value)(plain(element) for element in value)
    return value
