"""Evidence of a training run: its losses, 200 samples, and what of them is copied."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.evidence import load as load_evidence
from lab.evidence import record
from lab.evidence.errors import EvidenceError
from lab.evidence.root import evidence_root
from lab.model.checkpoint import load
from lab.model.samples import count_copies, take_samples
from lab.model.training import TrainResult, TrainSettings

SAMPLES, SAMPLE_SEED, TEMPERATURE = 200, 7, 0.7


def record_training(name: str, folder: Path, settings: TrainSettings, result: TrainResult) -> Path:
    """Record `07_a_tiny_lm/training_NAME.json`.

    A run with the settings that are already recorded adds its held-out loss to the list, so that the repetition can
    be compared; samples and training losses are those of the latest run.
    """
    path = evidence_root() / "07_a_tiny_lm" / f"training_{name.replace('-', '_')}.json"
    described = asdict(settings) | {"parameters": settings.config.parameters}
    described["config"] = settings.config.to_json()
    model = load(folder.name, "cpu", root=folder.parent)
    samples = take_samples(model, SAMPLES, SAMPLE_SEED, TEMPERATURE)
    inputs = {
        "losses": [round(loss, 4) for loss in (*result.losses[:-1:20], result.losses[-1])],
        "held_out_losses": [round(result.held_out_loss, 5), *_earlier(path, described)],
        "samples": samples,
        "copies": count_copies(result.corpus, samples),
        "settings": described | {"sample_seed": SAMPLE_SEED, "temperature": TEMPERATURE},
        "seconds": round(result.seconds, 1),
        "cpu_seconds": round(result.cpu_seconds, 1),
    }
    title = f"Training of {name}: losses, {SAMPLES} samples, what of them parses and what is copied"
    command = f"lab model train --name {name} --record"
    recipe = "lab.model.quality:summary"
    return record(
        path, kind="measured", title=title, recipe=recipe, inputs=inputs, seed=settings.seed, command=command
    ).path


def _earlier(path: Path, settings: dict[str, Any]) -> list[float]:
    """Held-out losses that were recorded for the same settings."""
    try:
        inputs = load_evidence(path).inputs
    except EvidenceError:
        return []
    recorded = {name: inputs["settings"].get(name) for name in settings}
    same = json.dumps(recorded, sort_keys=True) == json.dumps(settings, sort_keys=True)
    return list(inputs["held_out_losses"]) if same else []
