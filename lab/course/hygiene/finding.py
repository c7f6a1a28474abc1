"""One thing that is wrong with a notebook."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """`cell` counts all cells from 1, as a reader would; None means the whole file."""

    problem: str
    cell: int | None = None

    def __str__(self) -> str:
        return self.problem if self.cell is None else f"cell {self.cell}: {self.problem}"
