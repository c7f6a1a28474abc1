"""The exceptions of ``lab.server``, in one place.

``ApiError`` is an answer as much as an exception: whoever raises it has decided status, code and words, and
whoever catches it only sends them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from lab.core.endings import Reason
from lab.core.errors import LabError

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ServerError(LabError):
    """Root of the exceptions of ``lab.server``."""


class EngineLost(ServerError):
    """The engine went away while the server ran."""


class ApiError(ServerError):
    """An answer in the error shape of the OpenAI API: ``{"error": {message, type, param, code}}``.

    ``param`` names the field at fault (``messages[2].content``), or the header; None where it is none.
    ``reason`` is the refusal under which the request is recorded; None for a request that makes no record.
    """

    def __init__(
        self,
        status: int,
        message: str,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        reason: Reason | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param
        self.code = code
        self.headers = headers
        self.reason = reason

    def body(self) -> bytes:
        """The answer as JSON, ASCII only: what the caller sent may be quoted in it, and may be no valid text."""
        fields = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": fields}).encode("ascii")
