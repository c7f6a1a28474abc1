"""Calling a student's function so that a failure names the arguments it was called with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from lab.course.errors import AnswerRaised
from lab.course.values import plain


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, where an exception keeps the arguments as they were before the call.

    What it returns comes as plain Python values (`lab.course.values`), so that no check depends on their type.

    :raises NotImplementedError: the stub is still there (`check` answers "not attempted")
    :raises AnswerRaised: anything else that the answer raised; KeyboardInterrupt goes through
    """
    shown = _signature(function, args, kwargs)  # before the call: the answer may change its arguments
    try:
        return plain(function(*args, **kwargs))
    except (KeyboardInterrupt, NotImplementedError):
        raise
    except BaseException as error:
        raise AnswerRaised(shown, error) from error


def call_async(
    function: Callable[..., Coroutine[Any, Any, Any]], *args: Any, timeout: float = 10.0, **kwargs: Any
) -> Any:
    """Like `call` for a coroutine function, in a loop of its own: a notebook's loop is already running.

    The coroutine may take `timeout` seconds.

    :raises AnswerRaised: it raised, or did not finish in time
    """
    shown = _signature(function, args, kwargs)
    box: list[tuple[Any, BaseException | None]] = []

    async def main() -> Any:
        return await asyncio.wait_for(function(*args, **kwargs), timeout)

    def run() -> None:
        try:
            box.append((asyncio.run(main()), None))
        except BaseException as error:
            box.append((None, error))

    thread = threading.Thread(target=run, name="lab-check")
    thread.start()
    thread.join()
    value, error = box[0]
    if isinstance(error, NotImplementedError):
        raise error
    if error is not None:
        raise AnswerRaised(shown, error) from error
    return plain(value)


def _signature(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    shown = [_repr(value) for value in args]
    shown += [f"{name}={_repr(value)}" for name, value in kwargs.items()]
    return f"{getattr(function, '__name__', 'answer')}({', '.join(shown)})"


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # a student's own __repr__ may be broken
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
