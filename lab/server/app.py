"""``create_app``: the ASGI application for any server that runs its lifespan."""

from __future__ import annotations

from pathlib import Path

from starlette.types import ASGIApp

import lab.model
from lab.engine.config import EngineConfig
from lab.engine.host import start_process, start_thread
from lab.server.api import ServingTokenizer
from lab.server.service import HostFactory, Service
from lab.server.settings import ServerSettings


def create_app(settings: ServerSettings, host_factory: HostFactory | None = None) -> ASGIApp:
    """The application of a service of its own; the engine runs in a child process unless told otherwise."""
    return Service(settings, host_factory or process_factory(settings), load_tokenizer).app


def engine_config(settings: ServerSettings) -> EngineConfig:
    """The part of the settings that the engine needs."""
    return EngineConfig(
        model=settings.model,
        device=settings.device,
        slots=settings.slots,
        max_len=settings.max_len,
        threads=settings.threads,
    )


def process_factory(settings: ServerSettings) -> HostFactory:
    """An engine in a child process, as ``lab serve`` runs it."""
    config = engine_config(settings)
    return lambda on_events, on_exit: start_process(config, on_events, on_exit)


def thread_factory(settings: ServerSettings) -> HostFactory:
    """An engine in a thread of this process, for notebooks and tests."""
    config = engine_config(settings)
    return lambda on_events, on_exit: start_thread(config, on_events, on_exit)


def load_tokenizer(model: str) -> ServingTokenizer:
    """The tokenizer of a shipped model, without loading its weights (or torch).

    :raises ModelError: when it is missing or broken.
    """
    from lab.model.tokenizer import Tokenizer

    return Tokenizer.load(Path(lab.model.__path__[0]) / "weights" / model)
