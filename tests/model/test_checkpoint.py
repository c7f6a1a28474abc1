"""Shipped checkpoints load here and in transformers, with equal logits and equal text; broken ones say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from lab.model.checkpoint import FILES, WEIGHTS, available, fingerprint, load, resolve_device, save
from lab.model.errors import ModelError
from lab.model.generate import generate

torch.set_num_threads(1)
NAMES = ("lab-100k", "lab-1m")
MESSAGES = [
    {"role": "system", "content": "You watch the old gateway in Oslo."},
    {"role": "user", "content": "Why did r4812 end as drain at 04:17? 🐌"},
]


def test_two_checkpoints_ship_and_each_file_is_small() -> None:
    assert available() == NAMES
    for name in NAMES:
        files = {path.name: path.stat().st_size for path in (WEIGHTS / name).iterdir()}
        assert set(files) == set(FILES)
        assert max(files.values()) <= 4_000_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_transformers_gives_the_same_logits_and_text(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(WEIGHTS / name, dtype=torch.float32).eval()
    ours = load(name, "cpu")
    prompt = ours.tokenizer.chat(MESSAGES)
    [answer] = generate(ours, [prompt], 60)
    tokens = torch.tensor([prompt + answer])
    with torch.inference_mode():
        difference = (theirs(tokens).logits - ours.transformer(tokens)).abs().max()
        wanted = theirs.generate(torch.tensor([prompt]), max_new_tokens=60, do_sample=False)[0, len(prompt) :]
    assert difference <= 1e-4
    assert [token for token in wanted.tolist() if token != ours.tokenizer.eos_id] == answer


@pytest.mark.filterwarnings("ignore")
def test_transformers_tokenizes_and_renders_alike() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(WEIGHTS / "lab-1m")
    ours = load("lab-1m", "cpu").tokenizer
    assert theirs.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True) == ours.render(
        MESSAGES
    )
    ids = theirs.apply_chat_template(MESSAGES, add_generation_prompt=True, return_dict=False)
    assert ids == ours.chat(MESSAGES)
    text = "网关等了3.2 s，Łukasz 🪣 — naïve <b>"
    assert theirs(text).input_ids == ours.encode(text)
    assert (
        theirs.decode(ours.encode(text), skip_special_tokens=True) == ours.decode(ours.encode(text)) == text
    )
    assert theirs.eos_token_id == ours.eos_id


@pytest.mark.parametrize("name", NAMES)
def test_decode_equals_forward_on_trained_weights(name: str) -> None:
    model = load(name, "cpu", "float64")
    prompt = model.tokenizer.encode("At 04:17 the")
    [answer] = generate(model, [prompt], 40, ignore_eos=True)
    with torch.inference_mode():
        best = model.transformer(torch.tensor([prompt + answer]))[0, len(prompt) - 1 : -1].argmax(-1)
    assert answer == best.tolist()


def test_saving_and_loading_changes_nothing(tmp_path: Path) -> None:
    model = load("lab-100k", "cpu")
    save(tmp_path / "copy", model.transformer, model.tokenizer)
    again = load("copy", "cpu", root=tmp_path)
    assert again.fingerprint == model.fingerprint
    assert again.config == model.config


def test_sampling_is_the_same_for_the_same_seed() -> None:
    model = load("lab-100k", "cpu")
    prompts = [model.tokenizer.encode("At"), model.tokenizer.encode("The old")]
    first = generate(model, prompts, 20, temperature=1.0, seed=5)
    assert first == generate(model, prompts, 20, temperature=1.0, seed=5)
    assert first != generate(model, prompts, 20, temperature=1.0, seed=6)


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(ModelError, match="there is no checkpoint 'lab-9b'; there are lab-100k, lab-1m"):
        load("lab-9b")


@pytest.mark.parametrize("device", ["tpu", "cuda:99", "nonsense", "mps"])
def test_an_unknown_device_is_an_error(device: str) -> None:
    with pytest.raises(ModelError, match="device"):
        resolve_device(device)


def test_auto_is_a_device_that_is_there() -> None:
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_an_unknown_dtype_is_an_error() -> None:
    with pytest.raises(ModelError, match="dtype must be one of"):
        load("lab-100k", "cpu", "int3")


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    shutil.copytree(WEIGHTS / "lab-100k", tmp_path / "broken")
    return tmp_path


def test_truncated_weights_are_one_clear_error(broken: Path) -> None:
    path = broken / "broken" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match="no usable weights") as caught:
        load("broken", "cpu", root=broken)
    assert "\n" not in str(caught.value)


def test_weights_of_another_size_are_one_clear_error(broken: Path) -> None:
    shutil.copyfile(WEIGHTS / "lab-1m" / "model.safetensors", broken / "broken" / "model.safetensors")
    with pytest.raises(ModelError, match="no usable weights") as caught:
        load("broken", "cpu", root=broken)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "llama"}'])
def test_a_garbled_config_is_one_clear_error(broken: Path, text: str) -> None:
    (broken / "broken" / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError):
        load("broken", "cpu", root=broken)


@pytest.mark.parametrize("name", [name for name in FILES if name != "config.json"])
def test_a_missing_file_is_one_clear_error(broken: Path, name: str) -> None:
    (broken / "broken" / name).unlink()
    with pytest.raises(ModelError):
        load("broken", "cpu", root=broken)


def test_the_fingerprint_changes_with_any_file(broken: Path) -> None:
    before = fingerprint(broken / "broken")
    path = broken / "broken" / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": 2}), encoding="utf-8")
    assert fingerprint(broken / "broken") != before
