"""A tiny workbook with one chapter and two exercises, built afresh for each test."""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.course.grade import Chapter
from lab.course.notebook import KERNELSPEC, LANGUAGE

STORE = """
from lab.course.calls import call
from lab.course.exercise import Exercise, Option, Question, WrongAnswer
from lab.course.verdict import passed, wrong

def check_double(names):
    for n in (0, 1, 7):
        if call(names["double"], n) != 2 * n:
            return wrong("double(n) is not 2 * n", f"n = {n}")
    return passed()

def check_limit(names):
    if names["LIMIT"] is None:
        raise NotImplementedError
    return passed() if names["LIMIT"] == 3 else wrong("LIMIT is not 3")

EXERCISES = (
    Exercise(
        id="99-1", title="Double", names=("double",), minutes=1,
        stub="def double(n):\\n    raise NotImplementedError",
        solution="def double(n):\\n    return 2 * n",
        wrong=(
            WrongAnswer("squares", "def double(n):\\n    return n * n", "not 2 * n"),
            WrongAnswer("adds two", "def double(n):\\n    return n + 2", "not 2 * n"),
        ),
        hints=("Twice is two times.", "n + n"),
        check=check_double,
    ),
    Exercise(
        id="99-2", title="Limit", names=("LIMIT",), minutes=1,
        stub="LIMIT = None  # your answer", solution="LIMIT = len('abc')",
        wrong=(WrongAnswer("two", "LIMIT = 2", "not 3"), WrongAnswer("text", "LIMIT = '3'", "not 3")),
        hints=("More than two.", "Three."),
        check=check_limit,
    ),
)
QUIZ = (
    Question("99-q1", "What is twice two?", (
        Option("three", "that is two and one"),
        Option("four", "two and two", right=True),
    )),
)
"""
_SETUP = f"""\
import sys, types
store = types.ModuleType("lab.course.exercises.ch99")
exec({STORE!r}, store.__dict__)
sys.modules[store.__name__] = store
from lab.course import check, leak_check, setup
setup()"""
_PROSE = """\
# 99 Tiny

## The claim
Twice n is n and n. About 5 minutes.

## What you need, and what is left out
Nothing. [The evidence](../evidence) is empty.

## The incident
## Predict
## Exercises
## Your own run
## Quiz
## Real systems
## Summary
## Glossary
"""


def code(source: str, count: int, printed: str | None = None, **metadata: Any) -> dict[str, Any]:
    """A code cell that has run and, with `printed`, is checked."""
    outputs = [] if printed is None else [{"output_type": "stream", "name": "stdout", "text": [printed]}]
    if printed is not None:
        metadata.setdefault("tags", ["nbval-check-output"])
    return {
        "cell_type": "code",
        "id": f"c{count}",
        "execution_count": count,
        "metadata": metadata,
        "outputs": outputs,
        "source": source.splitlines(keepends=True),
    }


def _chapter(store: types.ModuleType) -> dict[str, Any]:
    def mark(exercise: str, role: str) -> dict[str, str]:
        return {"exercise": exercise, "role": role}

    cells = [code(_SETUP, 1, "Setup complete\n")]
    for exercise in store.EXERCISES:
        cells.append(code(exercise.stub, len(cells) + 1, lab=mark(exercise.id, "answer")))
        cells.append(
            code(
                f'check("{exercise.id}")',
                len(cells) + 1,
                f"{exercise.id} not attempted\n",
                lab=mark(exercise.id, "check"),
            )
        )
    cells.append(code("leak_check()", len(cells) + 1, "no leaks\n"))
    title = {
        "cell_type": "markdown",
        "id": "c0",
        "metadata": {},
        "source": _PROSE.rstrip().splitlines(keepends=True),
    }
    return {
        "cells": [title, *cells],
        "metadata": {"kernelspec": KERNELSPEC, "language_info": LANGUAGE, "lab": {"chapter": "99"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@dataclass(frozen=True)
class Workbook:
    """The tiny workbook; `answer` makes a submission from a chapter with other answers."""

    root: Path
    notebook: dict[str, Any]
    chapters: dict[str, Chapter]
    submissions: Path

    def answer(self, name: str, edit: Callable[[dict[str, Any]], None] | None = None, **answers: str) -> Path:
        """Write a submission; `answers` maps e1, e2 to sources, `edit` may change the rest."""
        notebook = copy.deepcopy(self.notebook)
        for key, text in answers.items():
            self.cell(notebook, f"99-{key[1:]}", "answer")["source"] = text
        if edit is not None:
            edit(notebook)
        path = self.submissions / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(notebook, ensure_ascii=False)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")  # for lone surrogates
        return path

    @staticmethod
    def cell(notebook: dict[str, Any], exercise: str, role: str) -> dict[str, Any]:
        """The answer or check cell of an exercise."""
        found: dict[str, Any] = next(
            cell
            for cell in notebook["cells"]
            if cell["metadata"].get("lab") == {"exercise": exercise, "role": role}
        )
        return found


def _make(folder: Path, patch: pytest.MonkeyPatch) -> Workbook:
    store = types.ModuleType("lab.course.exercises.ch99")
    exec(STORE, store.__dict__)
    patch.setitem(sys.modules, store.__name__, store)
    root = folder / "workbook"
    for name in ("chapters", "evidence"):
        (root / name).mkdir(parents=True)
    notebook = _chapter(store)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    (root / "chapters" / "99_tiny.ipynb").write_text(text, encoding="utf-8")
    chapters = {"99": Chapter("99_tiny.ipynb", notebook, store.EXERCISES)}
    patch.setenv("LAB_ROOT", str(root))
    return Workbook(root, notebook, chapters, folder / "submissions")


@pytest.fixture(scope="session")
def make_workbook() -> Callable[[Path, pytest.MonkeyPatch], Workbook]:
    """For fixtures that live longer than one test."""
    return _make


@pytest.fixture
def workbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbook:
    return _make(tmp_path, monkeypatch)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder of its own for scratch files: the path of a socket in it must stay under 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="g") as folder:
        yield Path(folder)
