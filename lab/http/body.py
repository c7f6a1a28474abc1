"""Reading a request body whole, with a bound on its size and on its time."""

import asyncio

from starlette.types import Receive, Scope

from lab.http.errors import BodyTimeout, BodyTooLarge, ClientGone


async def read_body(scope: Scope, receive: Receive, limit: int, seconds: float) -> bytes:
    """The body of at most ``limit`` bytes, if all of it comes within ``seconds``.

    A declared length that is too large is refused before anything is read.

    :raises BodyTooLarge: when it is longer than ``limit`` bytes, declared or not.
    :raises BodyTimeout: when its end is not there in time.
    :raises ClientGone: when the client leaves first.
    """
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge(f"the body has {int(declared)} bytes; at most {limit} are read")
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive, limit)
    except TimeoutError as error:
        raise BodyTimeout(f"the body did not come within {seconds:g} s") from error


async def _read(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client left before its request was complete")
        body += message.get("body", b"")
        if len(body) > limit:
            raise BodyTooLarge(f"the body has more than {limit} bytes")
        if not message.get("more_body", False):
            return bytes(body)
