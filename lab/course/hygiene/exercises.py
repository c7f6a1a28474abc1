"""The exercises of a chapter against their store: every one there once, as a stub, with its check below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.course.exercise import Exercise
from lab.course.hygiene.finding import Finding
from lab.course.notebook import CHECK_OUTPUT, Cell, Notebook, exercise_of, source, stdout, tags

Placed = dict[tuple[str, str], tuple[int, Cell]]


def check_exercises(notebook: Notebook, exercises: Sequence[Exercise]) -> Iterator[Finding]:
    """Findings on answer and check cells, given the exercises of this chapter's store."""
    known = {exercise.id: exercise for exercise in exercises}
    placed: Placed = {}
    for number, cell in enumerate(notebook["cells"], 1):
        mark = exercise_of(cell)
        if mark is None:
            continue
        if mark[0] not in known or mark[1] not in ("answer", "check"):
            yield Finding(f"unknown exercise or role: {mark[0]} {mark[1]}", number)
        elif mark in placed:
            yield Finding(f"a second {mark[1]} cell of exercise {mark[0]}", number)
        placed.setdefault(mark, (number, cell))
    for exercise in exercises:
        yield from _check_exercise(exercise, placed)
    whole = "\n".join(source(cell) for cell in notebook["cells"])
    yield from (
        Finding(f"the solution of {exercise.id} stands in the chapter")
        for exercise in exercises
        if exercise.solution.strip() in whole
    )


def _check_exercise(exercise: Exercise, placed: Placed) -> Iterator[Finding]:
    answer = placed.get((exercise.id, "answer"))
    check = placed.get((exercise.id, "check"))
    if answer is None or check is None:
        yield Finding(f"exercise {exercise.id} lacks its {'answer' if answer is None else 'check'} cell")
        return
    number, cell = answer
    if source(cell).strip() != exercise.stub.strip():
        yield Finding(f"the answer cell of {exercise.id} is not the stub of the store", number)
    if CHECK_OUTPUT in tags(cell):
        yield Finding("an answer cell must not be checked itself", number)
    if check[0] < number:
        yield Finding(f"the check of {exercise.id} stands above its answer cell", check[0])
    number, cell = check
    if f'check("{exercise.id}")' not in source(cell):
        yield Finding(f'the check cell does not call check("{exercise.id}")', number)
    if CHECK_OUTPUT not in tags(cell):
        yield Finding(f"a check cell needs {CHECK_OUTPUT}", number)
    if stdout(cell).strip() != f"{exercise.id} not attempted":
        yield Finding(f'the recorded check is not "{exercise.id} not attempted"', number)
