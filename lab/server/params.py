"""What a request body may say, as data: three lists, and the rule for the value of each supported field.

*Supported* fields do what they say. *At their default only*: fields that would change the answer in a way this
server does not know; the value that asks for nothing is accepted, any other is refused by name. *Ignored* fields
never change an answer; they are named in the ``X-Ignored-Params`` header. Everything else is refused, so that a
misspelt field is an error and not a silent default. ``null`` counts as "not given" for every field but the
required ones.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from lab.core.endings import Reason
from lab.server.errors import ApiError

Kind: TypeAlias = Literal["chat", "completion"]
Rule: TypeAlias = Callable[[str, Any], Any]  # (name of the field, JSON value) -> the value to use

APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
APP_ID_RULE = "1..64 letters, digits, dots, underscores or dashes"
MAX_STOPS = 4
MAX_STOP_CHARACTERS = 1024
GREEDY_BELOW = (
    1e-3  # a temperature so small divides logits beyond what a float can hold, and is greedy in effect
)
_SHOWN = 60


def refuse(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    """The 400 for a field at fault."""
    name = None if param is None else clean(param)
    text = message if name is None else f"{name}: {message}"
    return ApiError(400, text, param=name, code=code, reason=Reason.INVALID)


def unknown(path: str, known: Collection[str]) -> ApiError:
    """The 400 for a field that nobody knows, with the known one that looks most like it."""
    name = path.rpartition(".")[2]
    similar = difflib.get_close_matches(name[:_SHOWN], known, n=1, cutoff=0.75)
    advice = f"did you mean {similar[0]}?" if similar else "leave it out"
    return refuse(path, f"is not a known parameter; {advice}", "unknown_parameter")


def clean(text: str) -> str:
    """The text cut to a length that fits a message, and without half characters."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return shown.encode("utf-8", "replace").decode()


def kind_of(value: object) -> str:
    """The JSON name of a value's type."""
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "an array", str: "a string", int: "a whole number", float: "a number"}
    return names.get(type(value), "null")


def boolean(name: str, value: Any) -> bool:
    """:raises ApiError: for anything but true and false."""
    if not isinstance(value, bool):
        raise refuse(name, f"must be true or false, not {kind_of(value)}", "invalid_type")
    return value


def text(name: str, value: Any) -> str:
    """:raises ApiError: for anything but a string of whole characters."""
    if not isinstance(value, str):
        raise refuse(name, f"must be a string, not {kind_of(value)}", "invalid_type")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise refuse(name, f"holds half of a surrogate pair at character {error.start}") from error
    return value


def whole(low: int, high: int) -> Rule:
    """A whole number in ``low..high``."""

    def rule(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise refuse(name, f"must be a whole number, not {kind_of(value)}", "invalid_type")
        if not low <= value <= high:
            raise refuse(name, f"must lie in {low}..{high}")
        return value

    return rule


def number(low: float, high: float, *, above: bool = False) -> Rule:
    """A number in ``low..high``; with ``above``, not ``low`` itself."""

    def rule(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refuse(name, f"must be a number, not {kind_of(value)}", "invalid_type")
        if not low <= value <= high or (above and value == low):
            raise refuse(name, f"must lie {f'above {low:g} and up to' if above else f'in {low:g}..'}{high:g}")
        return float(value)

    return rule


def temperature(name: str, value: Any) -> float:
    """0 is greedy, and so is what is next to it.

    :raises ApiError: outside 0..2.
    """
    given: float = number(0, 2)(name, value)
    return given if given >= GREEDY_BELOW else 0.0


def top_k(name: str, value: Any) -> int:
    """Both ways to say "all tokens": 0, and -1 as other servers have it.

    :raises ApiError: for any other number below 1.
    """
    given: int = whole(-1, 2**31 - 1)(name, value)
    return max(given, 0)


def stops(name: str, value: Any) -> tuple[str, ...]:
    """One string, or up to four.

    :raises ApiError: for more, for an empty one, and for one that is too long to look out for.
    """
    if isinstance(value, str):
        return (_stop(name, value),)
    if not isinstance(value, list):
        raise refuse(name, f"must be a string or an array of strings, not {kind_of(value)}", "invalid_type")
    if len(value) > MAX_STOPS:
        raise refuse(name, f"holds {len(value)} strings; at most {MAX_STOPS} are watched for")
    return tuple(_stop(f"{name}[{at}]", item) for at, item in enumerate(value))


def _stop(name: str, value: Any) -> str:
    given = text(name, value)
    if not 1 <= len(given) <= MAX_STOP_CHARACTERS:
        raise refuse(name, f"must hold 1..{MAX_STOP_CHARACTERS} characters, not {len(given)}")
    return given


def stream_options(name: str, value: Any) -> bool:
    """Whether usage is wanted: only ``include_usage: true`` says so, an empty object does not.

    :raises ApiError: for an unknown option, or one that asks for what this server does not do.
    """
    if not isinstance(value, dict):
        raise refuse(name, f"must be an object, not {kind_of(value)}", "invalid_type")
    wanted = False
    for option, given in value.items():
        path = f"{name}.{option}"
        if option == "include_usage":
            wanted = given is not None and boolean(path, given)
        elif option in STREAM_OPTIONS_AT_DEFAULT:
            require_default(path, given, STREAM_OPTIONS_AT_DEFAULT[option])
        else:
            raise unknown(path, ("include_usage", *STREAM_OPTIONS_AT_DEFAULT))
    return wanted


def require_default(name: str, value: Any, default: Any) -> None:
    """:raises ApiError: when the value asks for more than nothing."""
    same_kind = isinstance(value, bool) == isinstance(default, bool)
    if value is None or (same_kind and value == default):
        return
    message = f"is not supported; leave it out, or send {json.dumps(default)}"
    raise refuse(name, message, "unsupported_parameter")


def _frozen(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(fields))


_COMMON: Mapping[str, Rule] = {
    "model": text,
    "stream": boolean,
    "stream_options": stream_options,
    "max_tokens": whole(1, 2**31 - 1),
    "min_tokens": whole(0, 2**31 - 1),
    "temperature": temperature,
    "top_p": number(0, 1, above=True),
    "top_k": top_k,
    "seed": whole(-(2**63), 2**63 - 1),
    "stop": stops,
    "ignore_eos": boolean,
}


def as_given(name: str, value: Any) -> Any:
    """A field whose value is checked where it is turned into tokens."""
    return value


SUPPORTED: Mapping[Kind, Mapping[str, Rule]] = MappingProxyType(
    {
        "chat": _frozen({**_COMMON, "messages": as_given, "max_completion_tokens": whole(1, 2**31 - 1)}),
        "completion": _frozen({**_COMMON, "prompt": as_given}),
    }
)
REQUIRED: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {"chat": ("model", "messages"), "completion": ("model", "prompt")}
)

_COMMON_DEFAULTS = {
    "n": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "logit_bias": {},
    "min_p": 0,
}
AT_DEFAULT: Mapping[Kind, Mapping[str, Any]] = MappingProxyType(
    {
        "chat": _frozen(
            {
                **_COMMON_DEFAULTS,
                "logprobs": False,
                "top_logprobs": 0,
                "tools": [],
                "tool_choice": "none",
                "parallel_tool_calls": True,
                "functions": [],
                "function_call": "none",
                "response_format": {"type": "text"},
                "modalities": ["text"],
                "audio": None,
                "prediction": None,
            }
        ),
        # here logprobs is a number, and 0 already asks for something
        "completion": _frozen(
            {**_COMMON_DEFAULTS, "logprobs": None, "best_of": 1, "echo": False, "suffix": ""}
        ),
    }
)
STREAM_OPTIONS_AT_DEFAULT: Mapping[str, Any] = _frozen(
    {"include_obfuscation": False, "continuous_usage_stats": False}
)
MESSAGE_AT_DEFAULT: Mapping[str, Any] = _frozen(
    # an answer of ours that comes back as a message of its caller carries these
    {"name": None, "refusal": None, "tool_calls": [], "function_call": None, "audio": None, "annotations": []}
)
IGNORED: tuple[str, ...] = ("user", "metadata", "store", "service_tier")
ROLES: Mapping[str, str] = _frozen(
    {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
)
