"""check(): five outcomes, one line, nothing else printed, no name left behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lab.course import Exercise, Verdict, call, call_async, check, passed, unknown, wrong
from lab.course.check import evaluate
from lab.course.errors import UnknownExercise
from lab.course.verdict import MAX_TEXT, Outcome


def exercise(judge: Callable[[Mapping[str, Any]], Verdict], *names: str) -> Exercise:
    return Exercise("99-1", "T", names, "", "", (), (), judge, 1)


def of(answer: Callable[[int], Any]) -> Verdict:
    """The verdict on an answer that should double its argument."""

    def judge(names: Mapping[str, Any]) -> Verdict:
        for n in (0, 3):
            if call(names["double"], n) != 2 * n:
                return wrong("not twice n", f"n = {n}")
        return passed()

    return evaluate(exercise(judge, "double"), {"double": answer, "other": 1})


def test_each_of_the_five_outcomes_has_its_line() -> None:
    def stub(n: int) -> int:
        raise NotImplementedError

    def broken(n: int) -> int:
        return n // 0

    assert of(lambda n: 2 * n).line("99-1") == "99-1 passed"
    assert of(stub).line("99-1") == "99-1 not attempted"
    assert of(lambda n: n).line("99-1") == "99-1 wrong: not twice n; smallest counterexample: n = 3"
    assert of(broken).line("99-1").startswith("99-1 exception: broken(0) raised ZeroDivisionError: ")
    few = evaluate(exercise(lambda _: unknown("3 samples are too few")), {})
    assert few.line("99-1") == "99-1 unknown: 3 samples are too few"


def test_a_name_that_is_not_there_is_not_attempted_and_says_so() -> None:
    verdict = evaluate(exercise(lambda _: passed(), "double", "limit"), {"double": 1})
    assert verdict == Verdict(Outcome.NOT_ATTEMPTED, "the answer cell has not run: limit is not defined")


@pytest.mark.parametrize(
    "error", [SystemExit(0), GeneratorExit(), asyncio.CancelledError(), RecursionError("deep")]
)
def test_whatever_an_answer_raises_is_an_exception_verdict(error: BaseException) -> None:
    def answer(n: int) -> int:
        raise error

    assert of(answer).outcome is Outcome.EXCEPTION


def test_an_interrupt_goes_through_so_that_a_time_limit_works() -> None:
    def answer(n: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        of(answer)


def test_the_arguments_are_shown_as_they_were_before_the_call() -> None:
    def eats(items: list[int]) -> None:
        items.clear()
        raise ValueError("empty")

    verdict = evaluate(exercise(lambda names: call(names["eats"], [1, 2]), "eats"), {"eats": eats})
    assert verdict.reason == "eats([1, 2]) raised ValueError: empty"


def test_an_argument_whose_repr_is_broken_does_not_hide_the_error() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ValueError

    def answer(thing: Odd) -> None:
        raise TypeError("no")

    verdict = evaluate(exercise(lambda names: call(names["f"], Odd()), "f"), {"f": answer})
    assert verdict.reason == "answer(<Odd whose repr raised ValueError>) raised TypeError: no"


def test_the_line_is_one_line_of_bounded_length_without_addresses() -> None:
    verdict = wrong(f"got {object()}\nand\tmore " + "x" * 1000)
    line = verdict.line("99-1")
    assert "\n" not in line
    assert "0x..." in line
    assert len(line) <= MAX_TEXT + len("99-1 wrong: ")
    assert line == wrong(f"got {object()}\nand\tmore " + "x" * 1000).line("99-1")


def test_nothing_that_the_answer_prints_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty(n: int) -> int:
        print("99-1 passed")
        print("99-1 passed", file=sys.stderr)
        return n

    assert of(chatty).outcome is Outcome.WRONG
    assert capsys.readouterr() == ("", "")


def test_F11_input_in_an_answer_is_an_exception_in_plain_words() -> None:
    def asks(n: int) -> int:
        return int(input("n? "))

    before = input
    verdict = of(asks)
    assert verdict.outcome is Outcome.EXCEPTION
    assert "input() cannot be used: nobody is there to answer" in verdict.reason
    assert input is before


def test_check_prints_one_line_and_returns_nothing(
    workbook: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "double", lambda n: n + n)
    assert check("99-1") is None
    assert capsys.readouterr().out == "99-1 passed\n"


def test_F20_check_reads_the_notebooks_names_and_leaves_none(
    workbook: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {"double": lambda n: 2 * n, "t": 1, "result": 2, "lab": 3, "exercise": 4, "check": 5}
    shell = types.SimpleNamespace(user_ns=dict(mine))
    ours = sys.modules["lab.course.check"]
    monkeypatch.setattr(ours, "_shell", lambda: shell)
    check("99-1")
    assert capsys.readouterr().out == "99-1 passed\n"
    assert shell.user_ns == mine


def test_an_unknown_id_is_named_with_what_there_is(workbook: Any) -> None:
    with pytest.raises(UnknownExercise, match="no exercise '99-7'; known here: 99-1, 99-2"):
        check("99-7")
    with pytest.raises(UnknownExercise, match="not an exercise id"):
        check("../etc")
    with pytest.raises(UnknownExercise, match="known here: none"):
        check("98-1")


def test_python_O_does_not_silence_a_check() -> None:
    code = """
        from lab.course import Exercise, call, passed, wrong
        from lab.course.check import evaluate
        judge = lambda names: passed() if call(names["f"], 2) == 4 else wrong("not 4")
        print(evaluate(Exercise("99-1", "", ("f",), "", "", (), (), judge, 1), {"f": lambda n: n}).line("99-1"))
    """
    done = subprocess.run(
        [sys.executable, "-O", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "99-1 wrong: not 4\n"


def test_a_check_that_returns_no_verdict_is_our_bug_and_loud() -> None:
    with pytest.raises(TypeError, match="not a Verdict"):
        evaluate(exercise(lambda _: None), {})  # type: ignore[arg-type, return-value]


def test_a_coroutine_is_called_in_a_loop_of_its_own() -> None:
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    async def notebook() -> int:
        return call_async(double, 4)  # a notebook's own loop is running

    assert asyncio.run(notebook()) == 8


def test_a_coroutine_that_hangs_or_is_a_stub_has_its_outcome() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    async def stub() -> None:
        raise NotImplementedError

    def judge(names: Mapping[str, Any]) -> Verdict:
        call_async(names["f"], timeout=0.01)
        return passed()

    assert evaluate(exercise(judge, "f"), {"f": hangs}).reason == "hangs() raised TimeoutError"
    assert evaluate(exercise(judge, "f"), {"f": stub}).outcome is Outcome.NOT_ATTEMPTED
