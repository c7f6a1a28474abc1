"""The shapes of the OpenAI API, as JSON text ready to be framed.

All chunks of a response share their beginning and their end, so those are made once per response and only the
text is escaped per event. ``system_fingerprint`` names the worker and its incarnation: two generations spliced
into one stream would show.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

from lab.core.endings import Reason
from lab.core.tokens import Usage
from lab.server.params import Kind

DONE = "[DONE]"


class Wire:
    """Writes the parts of one response. Every method but ``whole`` returns the data of one SSE event.

    ``include_usage`` gives every chunk a ``usage`` of null, as the API has it, besides the extra last chunk.
    """

    __slots__ = ("_after", "_before", "_chat", "_head", "_identity", "_nulls", "include_usage")

    def __init__(
        self, kind: Kind, response_id: str, created: int, model: str, fingerprint: str, include_usage: bool
    ) -> None:
        self._chat = kind == "chat"
        self._identity = {
            "id": response_id,
            "created": created,
            "model": model,
            "system_fingerprint": fingerprint,
        }
        self._nulls: dict[str, None] = {"usage": None} if include_usage else {}
        self._head = "chat.completion" if self._chat else "text_completion"
        self.include_usage = include_usage
        mark = "\0"  # stands in no id and no name, so it splits in exactly one place
        template = self._chunk({"content": mark} if self._chat else mark, None)
        self._before, self._after = template.split(encode_basestring(mark))

    def first(self) -> str | None:
        """The chunk before all text: it names the role. Only a chat has one."""
        return (
            self._chunk({"role": "assistant", "content": "", "refusal": None}, None) if self._chat else None
        )

    def delta(self, text: str) -> str:
        """A piece of text."""
        return f"{self._before}{encode_basestring(text)}{self._after}"

    def finish(self, reason: str) -> str:
        """The chunk without text that says why the text is over: stop or length."""
        return self._chunk({} if self._chat else "", reason)

    def usage(self, usage: Usage) -> str:
        """The extra chunk after the last: no choices, only what the request used."""
        return self._json({"object": self._chunk_object, "choices": [], "usage": usage.to_openai()})

    def error(self, reason: Reason, message: str) -> str:
        """An ending that is no natural one, after the response has begun."""
        fields = {"message": message, "type": "server_error", "param": None, "code": reason.value}
        return json.dumps({"error": fields}, separators=(",", ":"))

    def whole(self, text: str, finish_reason: str, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""
        answer: dict[str, Any] = (
            {"message": {"role": "assistant", "content": text, "refusal": None}}
            if self._chat
            else {"text": text}
        )
        choice = {"index": 0, **answer, "logprobs": None, "finish_reason": finish_reason}
        return self._json({"object": self._head, "choices": [choice], "usage": usage.to_openai()}).encode()

    @property
    def _chunk_object(self) -> str:
        return "chat.completion.chunk" if self._chat else "text_completion"

    def _chunk(self, content: dict[str, Any] | str, finish_reason: str | None) -> str:
        name = "delta" if self._chat else "text"
        choice = {"index": 0, name: content, "logprobs": None, "finish_reason": finish_reason}
        return self._json({"object": self._chunk_object, "choices": [choice], **self._nulls})

    def _json(self, fields: dict[str, Any]) -> str:
        return json.dumps({**self._identity, **fields}, ensure_ascii=False, separators=(",", ":"))
