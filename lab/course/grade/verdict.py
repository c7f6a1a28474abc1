"""From the rows of a run to the end of a submission.

This is the only place that decides. A check outside the kernel (hidden inputs, plain JSON compared by the
grader) belongs here, beside `_verdict`: it may turn "passed" into "wrong", never the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.course.exercise import Exercise
from lab.course.grade.assemble import Slot
from lab.course.grade.rows import Row
from lab.course.grade.run import Ran
from lab.course.grade.states import Grade, State
from lab.course.grade.submission import Answers, is_stub
from lab.course.verdict import Outcome, Verdict, unknown

_WORDS = {
    "StdinNotImplementedError": "input() cannot be used: nobody is there to answer",
}
_NOT_RUN = "the answer cell has not run: "


def judge(
    submission: str,
    chapter: str,
    exercises: Sequence[Exercise],
    answers: Answers,
    slots: Sequence[Slot],
    ran: Ran,
) -> Grade:
    """The grade of a submission that was run."""
    if ran.rows is None:
        return Grade(
            submission, chapter, State.TAMPERED, "an answer wrote to the grader's report", (), answers.notes
        )
    rows = [ran.rows.get(index) for index in range(len(slots))]
    by_slot = dict(zip(slots, rows, strict=True))
    notes = list(answers.notes)
    verdicts = []
    for exercise in exercises:
        answer, check = by_slot.get(Slot("answer", exercise.id)), by_slot.get(Slot("check", exercise.id))
        attempted = not is_stub(exercise, answers.sources[exercise.id])
        verdicts.append((exercise.id, _verdict(exercise, attempted, answer, check)))
        notes.extend(_warnings(exercise.id, answer))
    state, reason = _state(slots, rows, ran)
    return Grade(submission, chapter, state, reason, tuple(verdicts), tuple(notes))


def _state(slots: Sequence[Slot], rows: Sequence[Row | None], ran: Ran) -> tuple[State, str]:
    """The first thing that went wrong decides; a missing row means that the run ended there."""
    for slot, row in zip(slots, rows, strict=True):
        where = f"in the {slot.role} cell of {slot.exercise}" if slot.exercise else f"in {slot.role} cell"
        if row is None and ran.signal:
            return State.KERNEL_DIED, f"nbval was ended by {ran.signal} {where}"
        if row is None:
            return (State.TIMEOUT, where) if ran.killed else (State.ENV_ERROR, _last_line(ran.log))
        if row["kernel_died"]:
            return State.KERNEL_DIED, where
        if row["timed_out"]:
            return State.TIMEOUT, where
        if slot.exercise is None and not row["passed"]:
            return State.ENV_ERROR, _error(row) or row["message"]
    return State.GRADED, ""


def _verdict(exercise: Exercise, attempted: bool, answer: Row | None, check: Row | None) -> Verdict:
    if not attempted:
        return Verdict(Outcome.NOT_ATTEMPTED)
    if answer is None or not answer["ran"]:
        return unknown("not run")
    for row in (answer, check):
        if row is not None and row["ran"] and (row["timed_out"] or row["kernel_died"]):
            return Verdict(Outcome.EXCEPTION, "the kernel died" if row["kernel_died"] else "took too long")
    if not answer["passed"]:
        return Verdict(Outcome.EXCEPTION, _error(answer) or answer["message"])
    return unknown("not run") if check is None or not check["ran"] else _read_check(exercise, answer, check)


def _read_check(exercise: Exercise, answer: Row, check: Row) -> Verdict:
    """The verdict that the check cell printed; nbval must agree about "passed"."""
    said = _parse(exercise.id, _text(check, "stdout"))
    if said is None and _error(check).startswith("KeyboardInterrupt"):  # the one error that a check lets pass
        return Verdict(Outcome.EXCEPTION, _error(check))
    if said is None:
        return unknown(_error(check) or "the check printed something else than its one line")
    if (said.outcome is Outcome.PASSED) != check["passed"]:
        return unknown("nbval and the check disagree")
    if said.outcome is Outcome.NOT_ATTEMPTED and said.reason.startswith(_NOT_RUN):
        complaint = _first_line(_text(answer, "stderr"))
        return Verdict(
            Outcome.WRONG, "; ".join(filter(None, (said.reason.removeprefix(_NOT_RUN), complaint)))
        )
    if said.outcome is Outcome.NOT_ATTEMPTED:  # the check takes it for the stub, which it is not
        return Verdict(Outcome.EXCEPTION, "NotImplementedError: the answer, or what it calls, raised it")
    return said


def _parse(exercise_id: str, text: str) -> Verdict | None:
    outcomes = "|".join(outcome.value for outcome in Outcome)
    match = re.fullmatch(rf"{re.escape(exercise_id)} ({outcomes})(?:: (.*))?\n", text)
    if match is None:
        return None
    reason, _, counterexample = (match.group(2) or "").partition("; smallest counterexample: ")
    return Verdict(Outcome(match.group(1)), reason, counterexample or None)


def _warnings(exercise_id: str, answer: Row | None) -> list[str]:
    """A warning never costs a point, but the teacher may want to see it."""
    text = _text(answer, "stderr") if answer is not None and answer["passed"] else ""
    return [f"{exercise_id}: on stderr: {_first_line(text)}"] if text.strip() else []


def _text(row: Row, name: str) -> str:
    return "".join(output["text"] for output in row["outputs"] if output.get("name") == name)


def _error(row: Row) -> str:
    """The first error among the outputs, in plain words where we have them."""
    for output in row["outputs"]:
        if output.get("output_type") == "error":
            plain = _WORDS.get(output["ename"])
            return plain or f"{output['ename']}: {output['evalue']}"
    return ""


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0].strip() if lines else ""


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nbval said nothing"
