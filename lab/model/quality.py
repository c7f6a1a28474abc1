"""What a training run must show: sentences that follow the grammar, in words that are not copied.

`summary` is the recipe of the training evidence: it computes every claim from the recorded samples, without torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.model.grammar import parses

MAX_COPY = 60


def follows(sample: Mapping[str, str]) -> bool:
    """Whether a sample follows the grammar; a report goes on from its prompt, a reply stands alone."""
    text = sample["prompt"] + sample["text"] if sample["rule"] == "report" else sample["text"]
    return parses(sample["rule"], text)


def summary(
    losses: Sequence[float],
    held_out_losses: Sequence[float],
    samples: Sequence[Mapping[str, str]],
    copies: Mapping[str, int],
    settings: Mapping[str, Any],
    seconds: float,
    cpu_seconds: float,
) -> dict[str, Any]:
    """Claims about a training run, from what was recorded of it.

    :param losses: training loss of some steps, first and last among them, nats per token
    :param held_out_losses: of this run and of earlier ones with the same settings
    :param seconds: by the clock; not used, since it depends on what else the machine did
    """
    parsed = [follows(sample) for sample in samples]
    return {
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "held_out_loss": held_out_losses[0],
        "runs": len(held_out_losses),
        "held_out_spread": round(max(held_out_losses) - min(held_out_losses), 5),
        "samples": len(samples),
        "samples_that_parse": sum(parsed),
        "parse_rate": round(sum(parsed) / len(samples), 3),
        "samples_copying_over_60": copies[str(MAX_COPY + 1)],
        "parameters": settings["parameters"],
        "cpu_minutes": round(cpu_seconds / 60, 1),
    }
