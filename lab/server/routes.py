"""The routes: what is served where, and the small endpoints that do not generate."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

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
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "lab"}
            for name in self._backend.context.models
        ]
        return JSONResponse({"object": "list", "data": models})

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
        states, stats = owner.states(), owner.stats
        running = states[State.PREFILL] + states[State.DECODE]
        free = owner.host.info.slots if stats is None else stats.slots_free
        metrics.set_states(
            running=running, waiting=states[State.QUEUED], parked=states[State.PARKED], slots_free=free
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


def make_routes(backend: Backend) -> list[Route]:
    """All routes of a server."""
    pages = Pages(backend)
    return [
        Route("/v1/chat/completions", Generate(backend, "chat"), methods=["POST"]),
        Route("/v1/completions", Generate(backend, "completion"), methods=["POST"]),
        Route("/v1/models", pages.models),
        Route("/v1/requests/{request_id}/cancel", pages.cancel, methods=["POST"]),
        Route("/healthz", pages.healthz),
        Route("/readyz", pages.readyz),
        Route("/metrics", pages.metrics),
        Route("/debug/requests", pages.debug),
    ]


async def on_http_exception(request: HttpRequest, error: Exception) -> Response:
    """An unknown path or a wrong method, in the shape of the API. OPTIONS is answered, not refused."""
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    if error.status_code == 405 and request.method == "OPTIONS":
        return Response(status_code=204, headers=headers)
    message = f"{error.detail}: {request.method} {request.url.path}"
    return _error(error.status_code, message, "not_found" if error.status_code == 404 else None, headers)


def _error(status: int, message: str, code: str | None, headers: Mapping[str, str] | None = None) -> Response:
    error = ApiError(status, message, "invalid_request_error", None, code, headers or {})
    return Response(error.body(), status, dict(error.headers), media_type="application/json")


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
