"""`lab serve`: the server, with its engine in a child process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import click

from lab.cli.params import FiniteFloat

_CURL = """curl -N {url}/v1/chat/completions -H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "What is backpressure?"}}]}}'"""
_LIMITS = (
    "queue_timeout",
    "ttft_timeout",
    "idle_timeout",
    "overall_deadline",
    "stall_timeout",
    "flush_timeout",
)


def _limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """One option per limit; 0 switches it off."""
    for name in reversed(_LIMITS):
        option = f"--{name.replace('_', '-')}"
        text = "Seconds; 0 switches it off." if name != "flush_timeout" else "Seconds for the last words."
        function = click.option(option, type=FiniteFloat(min=0), help=text)(function)
    return function


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@click.option("--model", default="lab-1m", show_default=True, help="A shipped checkpoint.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
@click.option("--slots", default=32, show_default=True, type=click.IntRange(1), help="Sequences at once.")
@click.option(
    "--max-len", default=1024, show_default=True, type=click.IntRange(1), help="Tokens per sequence."
)
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(1), help="CPU threads of the engine."
)
@click.option(
    "--capacity", default=16, show_default=True, type=click.IntRange(1), help="Events queued per request."
)
@click.option("--low", type=click.IntRange(0), help="Low mark of the queue.  [default: capacity - 1]")
@click.option("--policy", default="park", show_default=True, type=click.Choice(["park", "coalesce", "fail"]))
@click.option("--max-running", type=click.IntRange(1), help="Requests with the engine.  [default: slots]")
@click.option(
    "--max-queued", default=64, show_default=True, type=click.IntRange(0), help="Requests that may wait."
)
@click.option(
    "--socket-send-buffer", default=1 << 13, show_default=True, type=click.IntRange(1), help="Bytes."
)
@click.option("--write-high-water", default=1 << 11, show_default=True, type=click.IntRange(0), help="Bytes.")
@click.option(
    "--app",
    "apps",
    multiple=True,
    metavar="NAME",
    help="An X-App-Id with metrics of its own; repeat it for more. Others are counted as `other`.",
)
@click.option("--commit", default="first", show_default=True, type=click.Choice(["first", "early"]))
@click.option("--ping", default=15.0, show_default=True, type=FiniteFloat(0), help="Seconds; 0 sends none.")
@click.option("--grace", default=20.0, show_default=True, type=FiniteFloat(0), help="Seconds to drain.")
@_limit_options
def command(ping: float, **options: Any) -> None:
    """Serve the tiny LM over an OpenAI-compatible SSE API.

    SIGTERM or Ctrl-C drains: running streams end within the grace, new requests get 503. A second one cuts.

    Example: lab serve --port 8000 --capacity 4 --policy park
    """
    from lab.core.errors import LabError
    from lab.core.limits import LimitSettings
    from lab.server.settings import ServerSettings

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    given = {name: value for name in _LIMITS if (value := options.pop(name)) is not None}
    try:
        limits = LimitSettings(**{name: value or None for name, value in given.items()})  # type: ignore[arg-type]
        settings = ServerSettings(limits=limits, ping_interval=ping, **options)
        serve(settings)
    except LabError as error:
        raise click.ClickException(str(error)) from error


def serve(settings: Any) -> None:
    """Listens, starts the engine, and serves until a signal.

    :raises LabError: when the port is taken, the model missing, the engine does not come up, or was lost.
    """
    import uvicorn

    from lab.http.signals import on_signals
    from lab.server.app import load_tokenizer, process_factory
    from lab.server.errors import EngineLost
    from lab.server.run import Runner, listen, url_of
    from lab.server.service import Service

    listener = listen(settings.host, settings.port)
    url = url_of(listener)

    def ready() -> None:
        click.echo(f"{settings.model} is served on {url}  (Ctrl-C drains and stops)")
        click.echo(_CURL.format(url=url, model=settings.model))

    async def main() -> None:
        service = Service(settings, process_factory(settings), load_tokenizer)
        runner = Runner(service, listener)
        with on_signals(runner.stop):
            await runner.run(on_ready=ready)
        if service.owner.lost:
            raise EngineLost("the engine was lost while it served; its requests ended as worker_lost")

    loop_factory = uvicorn.Config("", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
