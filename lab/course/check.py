"""`check("01-1")` in a notebook: one line that says how the answer above it stands.

Nothing else is printed: what the answer prints or displays while it is checked is swallowed,
and no name is left in the notebook's namespace. There is no time limit here; nbval has one.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from lab.course import registry
from lab.course.errors import AnswerRaised, InputUsed, describe
from lab.course.exercise import Exercise
from lab.course.verdict import Outcome, Verdict, not_attempted


def check(exercise_id: str) -> None:
    """Check the answer to one exercise and print one line, e.g. `01-1 passed`.

    Example: check("01-1")

    :raises UnknownExercise: no such id
    """
    exercise = registry.get(exercise_id)
    namespace = _namespace(sys._getframe(1).f_globals)
    print(evaluate(exercise, namespace).line(exercise.id))


def evaluate(exercise: Exercise, namespace: Mapping[str, Any]) -> Verdict:
    """The verdict on the exercise's names in `namespace`, quietly. Only KeyboardInterrupt escapes."""
    missing = [name for name in exercise.names if name not in namespace]
    if missing:
        return not_attempted(f"the answer cell has not run: {', '.join(missing)} is not defined")
    try:
        with _silence():
            verdict = exercise.check({name: namespace[name] for name in exercise.names})
    except KeyboardInterrupt:
        raise
    except NotImplementedError:
        return not_attempted()
    except (AnswerRaised, InputUsed) as error:
        return Verdict(Outcome.EXCEPTION, str(error))
    except BaseException as error:  # SystemExit too: an answer must not end the kernel
        return Verdict(Outcome.EXCEPTION, describe(error))
    if not isinstance(verdict, Verdict):
        raise TypeError(f"the check of {exercise.id} returned {verdict!r}, not a Verdict")
    return verdict


def _namespace(fallback: Mapping[str, Any]) -> Mapping[str, Any]:
    """The notebook's namespace, else the caller's globals (a script, a test)."""
    shell = _shell()
    return fallback if shell is None else shell.user_ns


def _shell() -> Any:
    module = sys.modules.get("IPython")  # not imported means: not in a notebook
    return None if module is None else module.get_ipython()


class _Nowhere(io.TextIOBase):
    """A text stream that keeps nothing, so that an endless print costs no memory."""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Swallow stdout, stderr and IPython displays, and refuse input(): the grader has nobody to ask."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(_Nowhere()))
        stack.enter_context(contextlib.redirect_stderr(_Nowhere()))
        if _shell() is not None:
            from IPython.utils.capture import capture_output

            stack.enter_context(capture_output(stdout=False, stderr=False, display=True))
        before, builtins.input = builtins.input, _refuse_input
        stack.callback(setattr, builtins, "input", before)
        yield


def _refuse_input(prompt: object = "") -> NoReturn:
    raise InputUsed("input() cannot be used: nobody is there to answer")
