"""How long the reader of chapter 01 waits for the next picture: the claims, computed from recorded samples.

The samples are taken in JupyterLab in a real browser, from the key press on the slider to the end of the
first frame with the new picture in it: ``python -m pytest -m soak tests/browser/test_chapter_01.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.bench.stats import Verdict, quantile

TARGET_P50, TARGET_P95 = 25.0, 50.0  # milliseconds
MOVES = 100  # fewer say nothing of a 95th percentile


def claims(samples_ms: Sequence[float], load: float, cpus: int) -> dict[str, Any]:
    """A recipe for evidence: p50 and p95 in milliseconds, and whether they are within the targets.

    ``load`` is the load average before the browser came up: where other work had filled the ``cpus``
    already, a time that is too long is "unknown", because it says more of them than of us.

    :raises ValueError: when there is no sample
    """
    busy = load > cpus
    report: dict[str, Any] = {"moves": len(samples_ms), "busy_machine": busy}
    for name, q, target in (("p50", 0.5, TARGET_P50), ("p95", 0.95, TARGET_P95)):
        value = quantile(samples_ms, q)
        within: Verdict = "met" if value <= target else "unknown" if busy else "missed"
        report[f"{name}_ms"] = value
        report[name] = "unknown" if len(samples_ms) < MOVES else within
    return report
