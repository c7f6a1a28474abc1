"""`lab model`: samples, exports, trains, and says in one line what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.cli.model import command
from lab.model import training
from lab.model.checkpoint import load


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_sample_as_json() -> None:
    lines = run(
        "sample", "--name", "lab-100k", "--chat", "Is it ready?", "--count", "2", "--json"
    ).splitlines()
    assert len(lines) == 2
    assert set(json.loads(lines[0])) == {"tokens", "text"}


def test_greedy_samples_are_the_same() -> None:
    arguments = ("sample", "--name", "lab-100k", "--prompt", "At 04:17", "--temperature", "0")
    assert run(*arguments) == run(*arguments, "--seed", "5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sample", "--name", "lab-9b"), "there is no checkpoint"),
        (("sample", "--device", "tpu"), "unknown device"),
        (("sample", "--chat", "<|eos|>"), "control token"),
        (("sample", "--prompt", "a", "--chat", "b"), "not both"),
        (("sample", "--prompt", "a " * 900, "--max-tokens", "1000"), "do not fit the context of 1024 tokens"),
        (("sample", "--temperature", "nan"), "nan is not a finite number"),
        (
            ("sample", "--temperature", "1e-300"),
            "the temperature must be 0, which is greedy, or at least 0.001",
        ),
        (("sample", "--seed", "9" * 23), "--seed"),
        (("sample", "--prompt", "a\udcff"), "it is not UTF-8 at character 1"),
        (("sample", "--chat", "\udcff"), "it is not UTF-8 at character 0"),
        (("export", "/proc/x"), "cannot write to /proc/x: No such file or directory"),
        (("export", "/etc/hostname/x"), "cannot write to /etc/hostname/x: Not a directory"),
        (("export", "/proc"), "cannot write to /proc"),
        (("export", ""), "the name of the folder is empty"),
        (("train", "--out", "/proc/x"), "cannot write to /proc/x: No such file or directory"),
        (("train", "--out", ""), "the name of the folder is empty"),
        (("train", "--seed", "9" * 23), "--seed"),
        (("train", "--threads", "99999"), "--threads"),
        (("sample", "--max-tokens", "0"), "max-tokens"),
        (("export", "out", "--name", "x"), "there is no checkpoint"),
        (("train", "--name", "x"), "x"),
        (("steps", "--device", "nowhere"), "unknown device"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code != 0
    [line] = [line for line in result.output.splitlines() if line.startswith("Error")]
    assert message in line


def test_export_copies_what_loads(tmp_path: Path) -> None:
    run("export", str(tmp_path / "mine"), "--name", "lab-100k")
    assert load("mine", "cpu", root=tmp_path).fingerprint == load("lab-100k", "cpu").fingerprint


def test_train_saves_a_checkpoint_and_prints_no_bar_in_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(training.SHIPPED["lab-100k"], documents=800)
    monkeypatch.setattr(training, "SHIPPED", {"lab-100k": small})
    printed = run("train", "--name", "lab-100k", "--steps", "1", "--out", str(tmp_path / "tiny"))
    assert printed.startswith("held_out_loss=")
    assert len(printed.splitlines()) == 1
    assert load("tiny", "cpu", root=tmp_path).config == load("lab-100k", "cpu").config


def test_steps_as_json() -> None:
    made = json.loads(run("steps", "--name", "lab-100k", "--device", "cpu", "--repeats", "1", "--json"))
    assert set(made["decode_us_per_token"]) == {"1", "2", "4", "8", "16", "32"}
