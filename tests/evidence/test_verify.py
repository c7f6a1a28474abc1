"""Verification: what is missing, added or edited is named, also when every hash was made to fit."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.cli.evidence import command
from lab.evidence import record, verify, write_manifest
from lab.evidence.files import digest, pretty

Edit = Callable[[dict[str, object]], None]


@pytest.fixture
def recorded(root: Path) -> Path:
    record("01_a/x.json", kind="exact", title="Twice", recipe="lab.test_recipes:double", inputs={"n": 21})
    samples = {"samples": [3.0, 1.0, 2.0]}
    record("01_a/m.json", kind="measured", title="Median", recipe="lab.test_recipes:median", inputs=samples)
    return root


def forge(path: Path, edit: Edit, *, digest_too: bool = True) -> None:
    """Change a file as somebody would who knows about digests, and about the manifest."""
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    if digest_too:
        content["digest"] = digest({key: value for key, value in content.items() if key != "digest"})
    path.write_text(pretty(content), encoding="utf-8")
    write_manifest(path.parents[1])


def problems(root: Path) -> list[str]:
    return [str(finding) for finding in verify(root)]


def test_a_fresh_recording_is_in_order(recorded: Path) -> None:
    assert problems(recorded) == []


def test_a_changed_figure_is_found_although_the_manifest_was_hashed_again(recorded: Path) -> None:
    def edit(content: dict[str, object]) -> None:
        content["result"] = {"twice": 43}

    forge(recorded / "01_a" / "x.json", edit, digest_too=False)
    assert problems(recorded) == [
        "01_a/x.json: x.json was edited: its digest does not fit its content",
    ]


def test_a_changed_figure_is_found_although_every_hash_was_made_to_fit(recorded: Path) -> None:
    def edit(content: dict[str, object]) -> None:
        content["result"] = {"twice": 43}

    forge(recorded / "01_a" / "x.json", edit)
    assert problems(recorded) == [
        "01_a/x.json: the result is not what lab.test_recipes:double gives: "
        "result.twice recorded 43, recomputed 42"
    ]


def test_a_changed_sample_is_found_by_the_claim_that_was_computed_from_it(recorded: Path) -> None:
    def edit(content: dict[str, object]) -> None:
        content["inputs"] = {"samples": [3.0, 1.0, 9.0]}

    forge(recorded / "01_a" / "m.json", edit)
    assert "result.median recorded 2.0, recomputed 3.0" in problems(recorded)[0]


def test_missing_extra_and_edited_files_are_named(recorded: Path) -> None:
    (recorded / "01_a" / "x.json").unlink()
    (recorded / "01_a" / "plot.svg").write_text("<svg/>", encoding="utf-8")
    measured = recorded / "01_a" / "m.json"
    measured.write_text(measured.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert problems(recorded) == [
        "01_a/m.json: does not fit its hash in MANIFEST.sha256",
        "01_a/plot.svg: not listed in MANIFEST.sha256",
        "01_a/x.json: listed in MANIFEST.sha256 but missing",
    ]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda content: content.pop("provenance"), "members must be"),
        (lambda content: content.update(schema=2), "schema 2 is not 1"),
        (lambda content: content.update(kind="guess"), "neither exact nor measured"),
        (lambda content: content.update(provenance={}), "provenance must hold"),
        (lambda content: content.update(recipe="os:getcwd"), "not of the form lab.module:function"),
    ],
)
def test_malformed_files_are_named(recorded: Path, edit: Edit, message: str) -> None:
    forge(recorded / "01_a" / "x.json", edit)
    assert message in problems(recorded)[0]


def test_a_malformed_manifest_is_one_finding(recorded: Path) -> None:
    (recorded / "MANIFEST.sha256").write_text("nonsense\n", encoding="utf-8")
    assert problems(recorded) == ["MANIFEST.sha256: MANIFEST.sha256 line 1 is malformed: 'nonsense'"]


def test_recording_one_file_does_not_bless_an_edit_of_another(recorded: Path) -> None:
    other = recorded / "01_a" / "m.json"
    other.write_text(other.read_text(encoding="utf-8").replace("Median", "Mean"), encoding="utf-8")
    record("01_a/x.json", kind="exact", title="Twice", recipe="lab.test_recipes:double", inputs={"n": 1})
    assert any("m.json: does not fit its hash" in problem for problem in problems(recorded))


def test_many_recorders_at_once_lose_no_line(root: Path) -> None:
    def one(n: int) -> None:
        record(f"{n:02}.json", kind="exact", title="T", recipe="lab.test_recipes:double", inputs={"n": n})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(12)))
    assert problems(root) == []
    assert len((root / "MANIFEST.sha256").read_text(encoding="utf-8").splitlines()) == 12


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_the_manifest_is_what_sha256sum_reads(recorded: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "-c", "MANIFEST.sha256"], cwd=recorded, capture_output=True, check=False
    )
    assert done.returncode == 0


def test_the_command_prints_one_line_per_finding_and_fails(recorded: Path) -> None:
    done = CliRunner().invoke(command, ["verify"])
    assert (done.exit_code, done.output) == (0, "2 files verified\n")
    (recorded / "01_a" / "x.json").unlink()
    done = CliRunner().invoke(command, ["verify"])
    assert (done.exit_code, done.output) == (1, "01_a/x.json: listed in MANIFEST.sha256 but missing\n")
    assert json.loads(CliRunner().invoke(command, ["verify", "--json"]).output) == [
        {"path": "01_a/x.json", "problem": "listed in MANIFEST.sha256 but missing"}
    ]


def test_the_command_shows_where_a_figure_comes_from(recorded: Path) -> None:
    done = CliRunner().invoke(command, ["show", "01_a/x.json"])
    assert done.exit_code == 0
    shown = dict(line.split(maxsplit=1) for line in done.output.splitlines() if not line.startswith("result"))
    assert shown["recipe"] == "lab.test_recipes:double"
    assert {"commit", "date", "machine", "versions", "digest"} <= set(shown)
    assert "result twice" in done.output
    assert CliRunner().invoke(command, ["show"]).output == "01_a/m.json  Median\n01_a/x.json  Twice\n"


def test_the_command_records_again_and_refuses_to_reuse_old_samples(recorded: Path) -> None:
    assert CliRunner().invoke(command, ["record", "01_a/x.json"]).exit_code == 0
    assert problems(recorded) == []
    done = CliRunner().invoke(command, ["record", "01_a/m.json"])
    assert done.exit_code == 1
    assert "take new samples" in done.output


def test_the_command_records_a_new_file(recorded: Path) -> None:
    arguments = ["record", "02_b/y.json", "--recipe", "lab.test_recipes:double", "--title", "T", "--inputs"]
    assert CliRunner().invoke(command, [*arguments, '{"n": 4}']).exit_code == 0
    assert problems(recorded) == []
    assert CliRunner().invoke(command, [*arguments, "[4]"]).exit_code == 2
    assert CliRunner().invoke(command, [*arguments, "{"]).exit_code == 2
    assert CliRunner().invoke(command, ["record", "nothing.json"]).exit_code == 1
