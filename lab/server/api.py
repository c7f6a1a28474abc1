"""From the bytes of a request body to a ``GenerationRequest``, or to a 4xx that names the field at fault.

Pure, and total: whatever the bytes are, the answer is one of the two. The rules themselves are data in
``lab.server.params``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from lab.core.endings import Reason
from lab.core.errors import LabError
from lab.engine.messages import SamplingParams
from lab.server import params
from lab.server.errors import ApiError
from lab.server.params import Kind, clean, kind_of, refuse

__all__ = ["ApiContext", "GenerationRequest", "Kind", "ServingTokenizer", "parse_request"]

ANONYMOUS = "anonymous"
_COMPLETION_MAX_TOKENS = 16  # what the completions API gives to a caller who names no number
_LABEL = re.compile(r"[\x21-\x7e]{1,128}")
_MAX_DIGITS = 300  # of a whole number; a float holds no larger one
_MILLISECONDS = re.compile(r"[0-9]{1,12}")
_Path: TypeAlias = tuple["_Path | None", str]  # where the enclosing value stands, and one step further


class ServingTokenizer(Protocol):
    """What is needed of a tokenizer to read a prompt."""

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, its beginning marked."""
        ...

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The prompt for the assistant's next message.

        :raises LabError: when the messages do not fit the template.
        """
        ...

    def token_bytes(self, token: int) -> bytes:
        """What a token stands for; nothing for a control token."""
        ...


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What a body is checked against: the models served, their tokenizer, and their context in tokens.

    No text of more than `max_bytes` fits into the context, however well it is encoded. Such a text is refused
    unread: encoding it would hold up the streams of everybody else for as long as it takes.
    """

    models: tuple[str, ...]
    tokenizer: ServingTokenizer
    max_len: int
    max_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Finds the longest token."""
        tokens = range(self.tokenizer.vocab_size)
        longest = max(len(self.tokenizer.token_bytes(token)) for token in tokens)
        object.__setattr__(self, "max_bytes", self.max_len * longest)

    def check_model(self, name: str) -> None:
        """:raises ApiError: 404 when it is not served here."""
        if name not in self.models:
            message = f"there is no model {clean(name)!r} here; served: {', '.join(self.models)}"
            raise ApiError(404, message, param="model", code="model_not_found", reason=Reason.INVALID)

    def check_size(self, name: str, texts: Sequence[str]) -> None:
        """:raises ApiError: when the texts, each with a token of its own at least, cannot fit into the context."""
        size = sum(map(len, texts))  # characters: at least as many bytes
        if len(texts) > self.max_len or size > self.max_bytes:
            shown = f"{len(texts)} messages" if len(texts) > self.max_len else f"{size} characters"
            raise _too_long(name, f"holds {shown}; prompt and answer together have {self.max_len} tokens")


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A body that was understood. ``ignored``: fields that had no effect; ``deadline_ms``: from arrival."""

    kind: Kind
    model: str
    prompt: tuple[int, ...]
    params: SamplingParams
    stream: bool
    include_usage: bool
    ignored: tuple[str, ...]
    app_id: str
    client_request_id: str | None
    deadline_ms: int | None


def parse_request(
    kind: Kind, body: bytes, headers: Mapping[str, str], context: ApiContext
) -> GenerationRequest:
    """Reads a body, and the headers that belong to it (names in lower case).

    :raises ApiError: a 4xx that says what is wrong and where. Nothing else is raised.
    """
    given = _load(body)
    fields = _known(kind, given)
    model = fields["model"]
    context.check_model(model)
    stream = fields.get("stream", False)
    if "stream_options" in fields and not stream:
        raise refuse("stream_options", "means something only with stream: true")
    prompt = _chat(fields["messages"], context) if kind == "chat" else _prompt(fields["prompt"], context)
    return GenerationRequest(
        kind=kind,
        model=model,
        prompt=prompt,
        params=_sampling(kind, fields, len(prompt), context),
        stream=stream,
        include_usage=fields.get("stream_options", False),
        ignored=tuple(name for name in params.IGNORED if name in given),
        app_id=_app_id(headers.get("x-app-id")),
        client_request_id=_label(headers.get("x-request-id")),
        deadline_ms=_deadline(headers.get("x-request-deadline-ms")),
    )


def _load(body: bytes) -> dict[str, Any]:
    """The JSON object; stricter than the json module, which takes NaN, doubled names and UTF-16."""
    numbers = _Numbers()
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=numbers.constant,
            parse_float=numbers.fraction,
            parse_int=numbers.integer,
            object_pairs_hook=_no_duplicates,
        )
    except UnicodeDecodeError as error:
        raise refuse(None, f"the body is not UTF-8 (byte {error.start})", "invalid_json") from error
    except RecursionError as error:
        raise refuse(None, "the body is nested too deeply", "invalid_json") from error
    except ValueError as error:
        raise refuse(None, f"the body is not valid JSON: {clean(str(error))}", "invalid_json") from error
    if numbers.odd is not None:
        raise refuse(_where_not_finite(value), f"{clean(numbers.odd)} is not a number that can be used")
    if not isinstance(value, dict):
        raise refuse(None, f"the body must be a JSON object, not {kind_of(value)}", "invalid_json")
    return value


class _Numbers:
    """Reads JSON numbers. One that no float can hold, or that is none, becomes ``nan``; ``odd`` is the last such."""

    def __init__(self) -> None:
        self.odd: str | None = None

    def constant(self, token: str) -> float:
        self.odd = token
        return math.nan

    def fraction(self, token: str) -> float:
        value = float(token)
        return value if math.isfinite(value) else self.constant(token)

    def integer(self, token: str) -> float:
        return int(token) if len(token) <= _MAX_DIGITS else self.constant(token)


def _where_not_finite(value: Any) -> str | None:
    """The path to a ``nan`` inside a JSON value. Paths are linked, not copied: a body may be wide and deep."""
    pending: list[tuple[_Path | None, Any]] = [(None, value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, dict):
            pending.extend(((path, f".{name}"), member) for name, member in item.items())
        elif isinstance(item, list):
            pending.extend(((path, f"[{at}]"), member) for at, member in enumerate(item))
        elif isinstance(item, float) and math.isnan(item):
            return _spelled(path)
    return None


def _spelled(path: _Path | None) -> str | None:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps)).removeprefix(".") or None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise refuse(name, "is given twice", "duplicate_parameter")
            seen.add(name)
    return value


def _known(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """The supported fields that were given, their values checked; all others are refused or without effect."""
    supported, at_default = params.SUPPORTED[kind], params.AT_DEFAULT[kind]
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name in supported:
            if value is not None:
                fields[name] = supported[name](name, value)
        elif name in at_default:
            params.require_default(name, value, at_default[name])
        elif name not in params.IGNORED:
            raise params.unknown(name, supported)
    for name in params.REQUIRED[kind]:
        if name not in fields:
            raise refuse(name, "is required", "missing_required_parameter")
    return fields


def _chat(messages: Any, context: ApiContext) -> tuple[int, ...]:
    if not isinstance(messages, list):
        raise refuse("messages", f"must be an array, not {kind_of(messages)}", "invalid_type")
    if not messages:
        raise refuse("messages", "must hold at least one message")
    read = [_message(f"messages[{at}]", message) for at, message in enumerate(messages)]
    context.check_size("messages", [message["content"] for message in read])
    try:
        return tuple(context.tokenizer.chat(read))
    except LabError as error:
        raise refuse("messages", clean(str(error))) from error


def _message(name: str, message: Any) -> dict[str, str]:
    if not isinstance(message, dict):
        raise refuse(name, f"must be an object, not {kind_of(message)}", "invalid_type")
    for key, value in message.items():
        if key in params.MESSAGE_AT_DEFAULT:
            params.require_default(f"{name}.{key}", value, params.MESSAGE_AT_DEFAULT[key])
        elif key not in ("role", "content"):
            raise params.unknown(f"{name}.{key}", ("role", "content"))
    role = params.text(f"{name}.role", message.get("role"))
    if role not in params.ROLES:
        raise refuse(f"{name}.role", f"must be one of {', '.join(params.ROLES)}")
    return {"role": params.ROLES[role], "content": _content(f"{name}.content", message.get("content"))}


def _content(name: str, content: Any) -> str:
    """A string, or text parts that are joined."""
    if not isinstance(content, list):
        return params.text(name, content)
    parts = []
    for at, part in enumerate(content):
        path = f"{name}[{at}]"
        if not isinstance(part, dict) or part.get("type") != "text" or part.keys() != {"type", "text"}:
            raise refuse(path, 'must be a text part: {"type": "text", "text": ...}')
        parts.append(params.text(f"{path}.text", part["text"]))
    return "".join(parts)


def _prompt(prompt: Any, context: ApiContext) -> tuple[int, ...]:
    """A string, an array of tokens, or an array with one of these."""
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        if len(prompt) > 1:
            raise refuse("prompt", f"holds {len(prompt)} prompts; send one per request")
        prompt = prompt[0]
    if isinstance(prompt, str):
        text: str = params.text("prompt", prompt)
        context.check_size("prompt", [text])
        prompt = context.tokenizer.encode(text)
    if not isinstance(prompt, list):
        raise refuse(
            "prompt", f"must be a string or an array of tokens, not {kind_of(prompt)}", "invalid_type"
        )
    if not prompt:
        raise refuse("prompt", "must hold at least one token")
    if len(prompt) >= context.max_len:
        raise _no_room("prompt", len(prompt), context)
    rule = params.whole(0, context.tokenizer.vocab_size - 1)
    return tuple(rule(f"prompt[{at}]", token) for at, token in enumerate(prompt))


def _sampling(
    kind: Kind, fields: Mapping[str, Any], prompt_tokens: int, context: ApiContext
) -> SamplingParams:
    max_tokens = _max_tokens(kind, fields, prompt_tokens, context)
    min_tokens = fields.get("min_tokens", 0)
    if min_tokens > max_tokens:
        raise refuse("min_tokens", f"is {min_tokens}, more than the {max_tokens} tokens asked for")
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        temperature=fields.get("temperature", 1.0),
        top_p=fields.get("top_p", 1.0),
        top_k=min(fields.get("top_k", 0), context.tokenizer.vocab_size),
        seed=fields.get("seed"),
        stop=fields.get("stop", ()),
        ignore_eos=fields.get("ignore_eos", False),
    )


def _max_tokens(kind: Kind, fields: Mapping[str, Any], prompt_tokens: int, context: ApiContext) -> int:
    """The tokens that may be generated: as asked for, else 16 for a completion and the rest of the context for a chat."""
    room = context.max_len - prompt_tokens
    if room < 1:
        raise _no_room("messages" if kind == "chat" else "prompt", prompt_tokens, context)
    new, old = fields.get("max_completion_tokens"), fields.get("max_tokens")
    if new is not None and old is not None and new != old:
        raise refuse("max_completion_tokens", f"is {new}, but max_tokens is {old}; give one of them")
    name = "max_tokens" if new is None else "max_completion_tokens"
    asked: int | None = old if new is None else new
    if asked is None:
        return room if kind == "chat" else min(room, _COMPLETION_MAX_TOKENS)
    if asked > room:
        message = f"is {asked}, but after {prompt_tokens} prompt tokens the context of {context.max_len} has room for {room}"
        raise _too_long(name, message)
    return asked


def _no_room(param: str, prompt_tokens: int, context: ApiContext) -> ApiError:
    message = f"holds {prompt_tokens} tokens; prompt and answer together have {context.max_len}"
    return _too_long(param, message)


def _too_long(param: str, message: str) -> ApiError:
    code = "context_length_exceeded"  # the name that clients of the API look for
    return ApiError(400, f"{param}: {message}", param=param, code=code, reason=Reason.TOO_LONG)


def _app_id(value: str | None) -> str:
    if value is None or value == "":
        return ANONYMOUS
    if not params.APP_ID.fullmatch(value):
        raise refuse("X-App-Id", f"must be {params.APP_ID_RULE}")
    return value


def _label(value: str | None) -> str | None:
    """The caller's own id: kept as a label if it is a plain one, else dropped. It is never a key."""
    return value if value is not None and _LABEL.fullmatch(value) else None


def _deadline(value: str | None) -> int | None:
    if value is None:
        return None
    if not _MILLISECONDS.fullmatch(value) or int(value) == 0:
        raise refuse("X-Request-Deadline-Ms", "must be one whole number of milliseconds, at least 1")
    return int(value)
