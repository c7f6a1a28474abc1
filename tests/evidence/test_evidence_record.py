"""Recording: the result comes from the recipe, provenance is complete, files are canonical."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.evidence import EvidenceError, load, record
from lab.evidence.files import digest, pretty
from lab.evidence.provenance import FIELDS

DOUBLE = "lab.test_recipes:double"


def test_the_result_is_what_the_recipe_gives(root: Path) -> None:
    evidence = record("01_a/x.json", kind="exact", title="Twice", recipe=DOUBLE, inputs={"n": 21}, seed=7)
    assert evidence.result == {"twice": 42}
    again = load("01_a/x.json")
    assert again == evidence
    assert again.recompute() == again.result
    assert again.provenance["seed"] == 7


def test_provenance_is_complete_and_names_no_person(root: Path) -> None:
    evidence = record("01_a/x.json", kind="exact", title="Twice", recipe=DOUBLE, inputs={"n": 1})
    assert tuple(evidence.provenance) == FIELDS
    assert evidence.provenance["cpus"] >= 1
    assert evidence.provenance["python"].count(".") == 2
    assert str(root.parent) not in json.dumps(evidence.provenance)


def test_commit_and_dirty_come_from_git(root: Path) -> None:
    workbook = root.parent
    (workbook / "lab").mkdir()
    (workbook / "lab" / "code.py").write_text("x = 1\n", encoding="utf-8")
    git = ["git", "-C", str(workbook), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "lab"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    clean = record("a.json", kind="exact", title="Twice", recipe=DOUBLE, inputs={"n": 1}).provenance
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (workbook / "lab" / "code.py").write_text("x = 2\n", encoding="utf-8")
    assert (
        record("a.json", kind="exact", title="T", recipe=DOUBLE, inputs={"n": 1}).provenance["dirty"] is True
    )


def test_both_ways_of_naming_a_file_reach_it(root: Path) -> None:
    record(root / "01_a" / "x.json", kind="exact", title="Twice", recipe=DOUBLE, inputs={"n": 2})
    assert load("evidence/01_a/x.json") == load("01_a/x.json") == load(root / "01_a" / "x.json")


def test_versions_are_read_without_importing_torch() -> None:
    code = (
        "import sys; from lab.evidence.provenance import _versions; v = _versions();"
        " print('torch' in sys.modules, 'numpy' in sys.modules, sorted(v))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False ['numpy', 'torch']\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guessed"}, "exact or measured"),
        ({"title": " "}, "needs a title"),
        ({"recipe": "os:getcwd"}, "lab.module:function"),
        ({"recipe": "lab.test_recipes:gone"}, "cannot be found"),
        ({"recipe": "lab.test_recipes:one_half"}, "not a function"),
        ({"inputs": {"m": 1}}, "failed: TypeError"),
        ({"inputs": {"n": {1, 2}}}, "cannot be written as JSON"),
        ({"inputs": {"n": float("nan")}}, "cannot be written as JSON"),
        ({"path": "../x.json"}, "leaves the evidence folder"),
        ({"path": "x.txt"}, r"ends in \.json"),
    ],
)
def test_bad_recordings_are_refused_and_leave_no_file(
    root: Path, change: dict[str, object], message: str
) -> None:
    arguments = {
        "path": "x.json",
        "kind": "exact",
        "title": "T",
        "recipe": DOUBLE,
        "inputs": {"n": 1},
        **change,
    }
    with pytest.raises(EvidenceError, match=message):
        record(arguments.pop("path"), **arguments)  # type: ignore[arg-type]
    assert list(root.iterdir()) == []


def test_an_edited_file_is_refused(root: Path) -> None:
    path = record("x.json", kind="exact", title="Twice", recipe=DOUBLE, inputs={"n": 21}).path
    path.write_text(path.read_text(encoding="utf-8").replace("42", "43"), encoding="utf-8")
    with pytest.raises(EvidenceError, match="edited"):
        load("x.json")


def test_a_file_that_the_manifest_does_not_list_is_refused(root: Path) -> None:
    record("x.json", kind="exact", title="Twice", recipe=DOUBLE, inputs={"n": 21})
    (root / "MANIFEST.sha256").write_text("", encoding="utf-8")
    with pytest.raises(EvidenceError, match="does not fit its line"):
        load("x.json")


def test_digest_ignores_layout_and_order_but_no_value() -> None:
    assert digest({"b": [1, 2.5], "a": "é"}) == digest(json.loads(pretty({"a": "é", "b": [1, 2.5]})))
    assert digest({"a": 1}) != digest({"a": 2})


def test_lists_of_samples_take_one_line() -> None:
    assert pretty({"inputs": {"samples": [1.5, 2.5], "pairs": [[1, 2], [3, 4]]}}) == (
        '{\n  "inputs": {\n    "samples": [1.5, 2.5],\n    "pairs": [\n      [1, 2],\n      [3, 4]\n    ]\n  }\n}\n'
    )
