"""The two endpoints that generate: from a request's bytes to its response, and its release on every path.

The handler waits for the first event, the limits and the client's leaving at once, and only then starts the
response, so that a request that never came to a token can still get its own status. One task owns
``receive``. The request is closed in a ``finally`` of this ASGI callable and nowhere else: a generator that
is never entered would never run its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from typing import Protocol

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lab.core.endings import ENDINGS, AfterFirstByte, Reason
from lab.core.record import Delivery, RequestInfo, SocketEnd
from lab.http.body import read_body
from lab.http.errors import BodyTimeout, BodyTooLarge, ClientGone
from lab.http.protocol import connection_of
from lab.server.admission import Refused
from lab.server.api import ApiContext, GenerationRequest, Kind, parse_request
from lab.server.errors import ApiError
from lab.server.owner import RequestOwner
from lab.server.request import Request
from lab.server.stream import MESSAGES, EventStream, usage_of
from lab.server.wire import Wire

_log = logging.getLogger(__name__)
_PREFIX: Mapping[Kind, str] = {"chat": "chatcmpl-", "completion": "cmpl-"}
_ROUTE: Mapping[Kind, str] = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}


Refusal = ApiError | BodyTooLarge | BodyTimeout | Refused


class Backend(Protocol):
    """What the endpoints need of the service they belong to."""

    @property
    def owner(self) -> RequestOwner: ...

    @property
    def context(self) -> ApiContext: ...


class Generate:
    """``POST /v1/chat/completions`` or ``/v1/completions``, as an ASGI application."""

    def __init__(self, backend: Backend, kind: Kind) -> None:
        self._backend = backend
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; it makes exactly one record, unless the client left before it had asked."""
        owner, settings = self._backend.owner, self._backend.owner.settings
        arrived_at = owner.clock.now()
        info = RequestInfo(uuid.uuid4().hex, route=_ROUTE[self._kind])
        try:
            owner.check_open()
            body = await read_body(scope, receive, settings.max_body_bytes, settings.body_timeout)
            asked = parse_request(self._kind, body, _headers(scope), self._backend.context)
            info = _info(info, asked)
            deadline = None if asked.deadline_ms is None else arrived_at + asked.deadline_ms / 1000
            request = owner.submit(info, asked.prompt, asked.params, arrived_at, deadline)
        except ClientGone:
            return
        except (ApiError, BodyTooLarge, BodyTimeout, Refused) as error:
            await self._refuse(info, error, arrived_at, scope, receive, send)
            return
        try:
            await self._serve(request, asked, scope, receive, send)
        finally:
            owner.close(request, request.delivery())

    async def _refuse(
        self,
        info: RequestInfo,
        error: Refusal,
        arrived_at: float,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        owner = self._backend.owner
        api_error = _as_api_error(error, owner.settings.retry_after)
        try:
            await error_response(api_error, info.request_id)(scope, receive, send)
        finally:
            delivery = Delivery(api_error.status, SocketEnd.COMPLETE)
            owner.refuse(info, api_error.reason or Reason.INVALID, delivery, arrived_at)

    async def _serve(
        self, request: Request, asked: GenerationRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request.connection = connection_of(scope)
        request.task = asyncio.current_task()
        listener = asyncio.create_task(self._listen(receive, request))
        try:
            await self._respond(request, asked, scope, receive, send)
        except asyncio.CancelledError:
            if request.task is None or not request.aborted or request.connection is not None:
                self._backend.owner.finish(request, Reason.DRAIN)  # the server is ending its tasks
                raise
            request.task.uncancel()  # it was abort_socket, for want of a better way
        except Exception:
            _log.exception("request %s: the handler failed", request.info.request_id)
            self._backend.owner.finish(request, Reason.BACKEND_ERROR)
            if request.status is None:
                await self._respond_error(request, scope, receive, send)
        finally:
            listener.cancel()

    async def _listen(self, receive: Receive, request: Request) -> None:
        """The one owner of ``receive`` once the body is read: nothing but the disconnect can come."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if not request.aborted:  # else it is only the echo of what the server did
            self._backend.owner.finish(request, Reason.CLIENT_DISCONNECT)

    async def _respond(
        self, request: Request, asked: GenerationRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        owner, wire = self._backend.owner, self._wire(request, asked)
        headers = response_headers(request.info.request_id, asked.ignored)
        if request.whole:
            while request.active:
                await request.changed()
        elif owner.settings.commit == "first":
            while request.active and not request.queue:
                await request.changed()
        if request.ended:
            await self._respond_error(request, scope, receive, send)
        elif request.whole:
            await self._respond_whole(request, wire, headers, scope, receive, send)
        else:
            ping = owner.settings.ping_interval
            await EventStream(request, owner, wire, headers, ping)(scope, receive, send)

    def _wire(self, request: Request, asked: GenerationRequest) -> Wire:
        info = self._backend.owner.host.info
        response_id = _PREFIX[asked.kind] + request.info.request_id
        return Wire(
            asked.kind, response_id, int(time.time()), asked.model, info.fingerprint, asked.include_usage
        )

    async def _respond_whole(
        self,
        request: Request,
        wire: Wire,
        headers: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        pieces, usage = request.queue.drop_all(), usage_of(request)
        if request.natural is None or usage is None:
            raise RuntimeError("an answer ends before the model is done")
        text = "".join(piece.text for piece in pieces)
        response = Response(
            wire.whole(text, request.natural.value, usage), 200, headers, media_type="application/json"
        )
        request.status = 200
        await response(scope, receive, send)
        owner = self._backend.owner
        if request.left():
            await request.wait_ended()
            return
        owner.sent(request, pieces)
        request.complete = True
        owner.flushed(request)

    async def _respond_error(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        """The ending before the first byte: its own status, where somebody is there to read it."""
        reason = request.lifecycle.reason
        if reason is None or ENDINGS[reason].after is not AfterFirstByte.ERROR:
            return
        error = ending_error(reason, MESSAGES[reason], self._backend.owner.settings.retry_after)
        request.status = error.status
        await error_response(error, request.info.request_id)(scope, receive, send)
        request.complete = not request.left()


def response_headers(request_id: str, ignored: tuple[str, ...] = ()) -> dict[str, str]:
    """The headers that every answer carries."""
    headers = {"X-Request-Id": request_id, "Cache-Control": "no-store"}
    if ignored:
        headers["X-Ignored-Params"] = ", ".join(ignored)
    return headers


def error_response(error: ApiError, request_id: str) -> Response:
    """An error as the whole response."""
    headers = response_headers(request_id) | dict(error.headers)
    return Response(error.body(), error.status, headers, media_type="application/json")


def ending_error(reason: Reason, message: str, retry_after: int, code: str | None = None) -> ApiError:
    """The error for an ending or a refusal, with the status and the Retry-After of its row in the table.

    Its code is the reason, unless told otherwise.
    """
    ending = ENDINGS[reason]
    status = ending.status or 500
    headers = {"Retry-After": str(retry_after)} if ending.retry_after else {}
    if reason in (Reason.DRAIN, Reason.DRAINING):
        headers["Connection"] = "close"  # nothing more is to be had here
    kind = "invalid_request_error" if status < 499 else "server_error"
    return ApiError(status, message, kind, None, code or reason.value, headers, reason)


def _as_api_error(error: Refusal, retry_after: int) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Refused):
        return ending_error(error.reason, str(error), retry_after, error.code)
    status, code = (413, "body_too_large") if isinstance(error, BodyTooLarge) else (408, "body_timeout")
    headers = {"Connection": "close"}  # the rest of the body is not read
    return ApiError(status, str(error), code=code, headers=headers, reason=Reason.INVALID)


def _headers(scope: Scope) -> dict[str, str]:
    """The headers by name. One that is sent twice is one list, as HTTP has it, and no single value."""
    joined: dict[str, str] = {}
    for name, value in Headers(scope=scope).items():
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _info(info: RequestInfo, asked: GenerationRequest) -> RequestInfo:
    return RequestInfo(
        info.request_id,
        app_id=asked.app_id,
        client_request_id=asked.client_request_id,
        route=info.route,
        model=asked.model,
        stream=asked.stream,
        max_tokens=asked.params.max_tokens,
        prompt_tokens=len(asked.prompt),
    )
