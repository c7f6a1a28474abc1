"""The report of a run: the rows that nbval_plugin wrote, one for each finished code cell."""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]
_TYPES = {"index": int, "passed": bool, "outputs": list, "message": str}
_TYPES |= dict.fromkeys(("timed_out", "kernel_died", "ran"), bool)


def read_rows(report: bytes) -> dict[int, Row] | None:
    """Index → row. None when the report is not as we write it: then an answer has written to it.

    A second row for a cell is such a case, whichever of the two is ours. The last line of a killed run may be
    cut, and does not count.
    """
    rows: dict[int, Row] = {}
    for line in report.decode("utf-8", errors="replace").split("\n")[:-1]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not _is_row(row) or row["index"] in rows:
            return None
        rows[row["index"]] = row
    return rows


def _is_row(row: object) -> bool:
    return (
        isinstance(row, dict)
        and all(type(row.get(name)) is kind for name, kind in _TYPES.items())
        and all(isinstance(output, dict) for output in row["outputs"])
    )
