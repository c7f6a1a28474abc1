"""The routes: what is served where, and the small endpoints that do not generate."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Protocol

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import Lifespan, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from lab.core.endings import Reason
from lab.core.lifecycle import State
from lab.server.api import ApiContext
from lab.server.errors import ApiError
from lab.server.generate import Generate
from lab.server.owner import RequestOwner
from lab.telemetry.metrics import Metrics


class Backend(Protocol):
    """What the routes need of the service."""

    @property
    def owner(self) -> RequestOwner: ...

    @property
    def context(self) -> ApiContext: ...

    @property
    def metrics(self) -> Metrics: ...


class Pages:
    """The small endpoints. They read the service and change nothing, but for the cancel."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def models(self, request: HttpRequest) -> Response:
        """``GET /v1/models``."""
        models = [_model(name) for name in self._backend.context.models]
        return JSONResponse({"object": "list", "data": models})

    async def model(self, request: HttpRequest) -> Response:
        """``GET /v1/models/{id}``: the model, or 404."""
        name = request.path_params["model_id"]
        try:
            self._backend.context.check_model(name)
        except ApiError as error:
            return _response(error)
        return JSONResponse(_model(name))

    async def healthz(self, request: HttpRequest) -> Response:
        """``GET /healthz``: this process answers. True during a drain as well."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, request: HttpRequest) -> Response:
        """``GET /readyz``: 200 while new requests are welcome, else 503 with the reason."""
        owner = self._backend.owner
        if owner.ready:
            return JSONResponse({"status": "ready"})
        status = "draining" if owner.draining else "engine_lost"
        return JSONResponse({"status": status}, 503, {"Retry-After": str(owner.settings.retry_after)})

    async def metrics(self, request: HttpRequest) -> Response:
        """``GET /metrics``, in the format that the scraper accepts."""
        owner, metrics = self._backend.owner, self._backend.metrics
        states = owner.states()
        metrics.set_states(
            running=states[State.PREFILL] + states[State.DECODE],
            waiting=states[State.QUEUED],
            parked=states[State.PARKED],
            slots_free=owner.slots_free,
        )
        body, content_type = metrics.exposition(request.headers.get("accept"))
        return Response(body, headers={"Content-Type": content_type})

    async def cancel(self, request: HttpRequest) -> Response:
        """``POST /v1/requests/{id}/cancel``: 202 with the state it was in, 409 if it had ended, 404 if unknown."""
        owner, request_id = self._backend.owner, request.path_params["request_id"]
        found = owner.find(request_id)
        if found is None:
            return _error(404, f"no request {request_id}", "request_not_found")
        if isinstance(found, Reason):
            return _error(409, f"request {request_id} has ended: {found.value}", "already_ended")
        state = found.lifecycle.state
        if owner.finish(found, Reason.CLIENT_CANCEL):
            return JSONResponse({"request_id": request_id, "state": state.value}, 202)
        return _error(409, f"request {request_id} has ended: {found.lifecycle.reason}", "already_ended")

    async def debug(self, request: HttpRequest) -> Response:
        """``GET /debug/requests``: the live states, for a caller on this machine."""
        if not _is_loopback(request.client.host if request.client else ""):
            return _error(403, "only from the machine that serves", "loopback_only")
        return JSONResponse(self._backend.owner.snapshot())


class _Route(Route):
    """A route that answers a wrong method in the shape of the API, and OPTIONS with what it allows."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        methods = self.methods or set()
        if scope["method"] in methods:
            await self.app(scope, receive, send)
            return
        allow = {"Allow": ", ".join(sorted(methods))}
        if scope["method"] == "OPTIONS":
            response = Response(status_code=204, headers=allow)
        else:
            response = _error(405, f"{scope['method']} is not allowed here", "method_not_allowed", allow)
        await response(scope, receive, send)


def make_router(backend: Backend, lifespan: Lifespan[Any]) -> Router:
    """All routes of a server. A plain router: each middleware would wrap every send of every token."""
    pages = Pages(backend)
    routes = [
        _Route("/v1/chat/completions", Generate(backend, "chat"), methods=["POST"]),
        _Route("/v1/completions", Generate(backend, "completion"), methods=["POST"]),
        _Route("/v1/models", pages.models),
        _Route("/v1/models/{model_id:path}", pages.model),
        _Route("/v1/requests/{request_id}/cancel", pages.cancel, methods=["POST"]),
        _Route("/healthz", pages.healthz),
        _Route("/readyz", pages.readyz),
        _Route("/metrics", pages.metrics),
        _Route("/debug/requests", pages.debug),
    ]
    return Router(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocketClose()(scope, receive, send)
        return
    response = _error(404, f"there is nothing at {scope['path']}", "not_found")
    await response(scope, receive, send)


def _error(status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> Response:
    return _response(ApiError(status, message, "invalid_request_error", None, code, headers or {}))


def _response(error: ApiError) -> Response:
    return Response(error.body(), error.status, dict(error.headers), media_type="application/json")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "lab"}


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
