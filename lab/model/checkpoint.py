"""Checkpoints on disk, in the layout of Hugging Face, and the two that ship with the package."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.model.config import ModelConfig
from lab.model.errors import ModelError
from lab.model.tokenizer import Tokenizer
from lab.model.transformer import Transformer

WEIGHTS = Path(__file__).with_name("weights")
FILES = (
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
_DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded checkpoint; `fingerprint` is 12 hex digits that change when any of its files does."""

    name: str
    config: ModelConfig
    transformer: Transformer
    tokenizer: Tokenizer
    fingerprint: str


def available(root: Path = WEIGHTS) -> tuple[str, ...]:
    """Names of the checkpoints under `root`, sorted."""
    return tuple(sorted(folder.parent.name for folder in root.glob("*/config.json")))


def load(name: str = "lab-1m", device: str = "auto", dtype: str = "float32", root: Path = WEIGHTS) -> Model:
    """Load a checkpoint, ready to decode.

    :raises ModelError: when the name, the device or the dtype is unknown, or a file is missing or broken.
    """
    if name not in available(root):
        raise ModelError(f"there is no checkpoint {name!r}; there are {', '.join(available(root)) or 'none'}")
    if dtype not in _DTYPES:
        raise ModelError(f"dtype must be one of {', '.join(_DTYPES)}, not {dtype!r}")
    folder, place = root / name, resolve_device(device)
    config = ModelConfig.from_json(_read_json(folder / "config.json"))
    transformer = Transformer(config)
    _fill(transformer, folder / "model.safetensors")
    transformer.to(device=place, dtype=_DTYPES[dtype]).eval()
    return Model(name, config, transformer, Tokenizer.load(folder), fingerprint(folder))


def save(folder: Path, transformer: Transformer, tokenizer: Tokenizer) -> None:
    """Write a checkpoint that `load` and transformers read; weights in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.detach().float().cpu() for name, weight in transformer.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = transformer.config
    generation = {"bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id}
    for name, fields in (("config.json", config.to_json()), ("generation_config.json", generation)):
        (folder / name).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(folder)


def fingerprint(folder: Path) -> str:
    """First 12 hex digits of the SHA-256 over all files of a checkpoint.

    :raises ModelError: when one of them is missing.
    """
    digest = hashlib.sha256()
    for name in FILES:
        try:
            digest.update(name.encode() + (folder / name).read_bytes())
        except OSError as error:
            raise ModelError(f"the checkpoint lacks {folder / name}") from error
    return digest.hexdigest()[:12]


def resolve_device(device: str) -> torch.device:
    """`auto` is CUDA when there is one, else the CPU.

    :raises ModelError: when torch does not know the device, or it is not there.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ModelError(f"unknown device {device!r}; use auto, cpu or cuda") from error
    if place.type not in ("cpu", "cuda"):
        raise ModelError(f"the device must be auto, cpu or cuda, not {device!r}")
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"this machine has no device {device!r}")
    return place


def _fill(transformer: Transformer, path: Path) -> None:
    try:
        weights: dict[str, Tensor] = load_file(path)
        transformer.load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"no usable weights in {path}: {str(error).splitlines()[0]}") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"no usable JSON in {path}: {error}") from error
    if not isinstance(fields, dict):
        raise ModelError(f"{path} must hold one JSON object")
    return fields
