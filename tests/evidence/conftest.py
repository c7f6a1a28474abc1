"""An evidence folder in a temporary workbook, and recipes that exist only in the tests."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest


def double(n: int) -> dict[str, int]:
    return {"twice": 2 * n}


def median(samples: list[float]) -> dict[str, float]:
    return {"median": sorted(samples)[len(samples) // 2], "n": len(samples)}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The evidence folder; recipes lab.test_recipes:double and :median work."""
    recipes = types.ModuleType("lab.test_recipes")
    recipes.__dict__.update(double=double, median=median, one_half=0.5)
    monkeypatch.setitem(sys.modules, "lab.test_recipes", recipes)
    for folder in ("chapters", "evidence"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("LAB_ROOT", str(tmp_path))
    return tmp_path / "evidence"
