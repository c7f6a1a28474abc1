"""How long the reader of chapter 01 waits for the next picture: the claims, computed from recorded samples.

The samples are taken in JupyterLab in a real browser, from the key press on the slider to the end of the
first frame with the new picture in it: ``python -m pytest -m soak tests/browser/test_chapter_01.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.bench.stats import quantile

TARGET_P50, TARGET_P95 = 25.0, 50.0  # milliseconds, over 100 moves


def claims(samples_ms: Sequence[float]) -> dict[str, Any]:
    """A recipe for evidence: p50 and p95 in milliseconds, and whether they are within the targets.

    :raises ValueError: when there is no sample
    """
    p50, p95 = quantile(samples_ms, 0.5), quantile(samples_ms, 0.95)
    return {
        "moves": len(samples_ms),
        "p50_ms": p50,
        "p95_ms": p95,
        "target_p50_ms": TARGET_P50,
        "target_p95_ms": TARGET_P95,
        "p50_within": p50 <= TARGET_P50,
        "p95_within": p95 <= TARGET_P95,
    }
