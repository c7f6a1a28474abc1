"""The notebook that is run for a submission: our chapter, with the student's answers and our expected outputs.

Of the chapter only these cells are kept, so that grading does not repeat its experiments: the first code
cell (imports, setup) and cells tagged `lab-keep`, then the answer and check cells. An answer may therefore
use what the former define, and nothing else; CI proves for each chapter that its solutions pass this way.
Our cells come first: a failure among them is never the student's doing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lab
from lab.course.notebook import (
    CHECK_OUTPUT,
    KEEP,
    KERNELSPEC,
    LANGUAGE,
    Cell,
    Notebook,
    code_cells,
    exercise_of,
    source,
    tags,
)

# leaves no names behind, fails when another `lab` would be imported, and protects the cells from each other
_GUARD = """\
if __import__("lab").__file__ != {ours!r}:
    raise ImportError("another package called lab is in the way: " + str(__import__("lab").__file__))
__import__("importlib").import_module("lab.course.guard").install(get_ipython())
"""
# the student may have rebound `check`; this finds ours and leaves no name either
_CHECK = '__import__("importlib").import_module("lab.course").check({exercise!r})'


@dataclass(frozen=True, slots=True)
class Slot:
    """What a code cell of the assembled notebook is for; `exercise` is None for our own cells."""

    role: str  # guard, ours, answer, check
    exercise: str | None = None


@dataclass(frozen=True, slots=True)
class Assembled:
    """The notebook, and for each of its code cells what it is for."""

    notebook: Notebook
    slots: tuple[Slot, ...]


def assemble(pristine: Notebook, answers: Mapping[str, str]) -> Assembled:
    """Build the notebook from our copy of the chapter and `answers`, exercise id → source."""
    cells: list[Cell] = []
    slots: list[Slot] = []

    def add(slot: Slot, text: str, expected: str | None = None) -> None:
        slots.append(slot)
        cells.append(_cell(len(slots), text, expected))

    add(Slot("guard"), _GUARD.format(ours=str(Path(lab.__file__))))
    for number, cell in enumerate(code_cells(pristine)):
        if exercise_of(cell) is None and (number == 0 or KEEP in tags(cell)):
            add(Slot("ours"), source(cell))
    for cell in code_cells(pristine):
        exercise, role = exercise_of(cell) or (None, None)
        if exercise is None:
            continue
        if role == "answer":
            add(Slot("answer", exercise), answers[exercise])  # exactly as written: nothing is put before it
        else:
            add(Slot("check", exercise), _CHECK.format(exercise=exercise), f"{exercise} passed\n")
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": copy.deepcopy(KERNELSPEC), "language_info": copy.deepcopy(LANGUAGE)},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return Assembled(notebook, tuple(slots))


def _cell(count: int, text: str, expected: str | None) -> Cell:
    """A code cell; `expected` is what the right answer makes it print, and nbval compares with that."""
    outputs: list[dict[str, Any]] = []
    if expected is not None:
        outputs.append({"output_type": "stream", "name": "stdout", "text": expected})
    return {
        "cell_type": "code",
        "id": f"grade-{count}",
        "execution_count": count,
        "metadata": {"tags": [CHECK_OUTPUT]} if expected is not None else {},
        "outputs": outputs,
        "source": text,
    }
