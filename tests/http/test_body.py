"""Reading a body: whole, bounded, and never without its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lab.http.body import read_body
from lab.http.errors import BodyTimeout, BodyTooLarge, ClientGone


def read(messages: list[dict[str, Any]], limit: int = 10, declared: bytes | None = None) -> tuple[bytes, int]:
    """The body, and how many messages were received for it."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        return left.pop(0)

    headers = [] if declared is None else [(b"content-length", declared)]
    body = asyncio.run(read_body({"type": "http", "headers": headers}, receive, limit, 5))
    return body, len(messages) - len(left)


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_pieces_are_joined() -> None:
    assert read([part(b"ab", True), part(b"", True), part(b"c")]) == (b"abc", 3)


def test_a_message_may_lack_its_body() -> None:
    assert read([{"type": "http.request"}]) == (b"", 1)


def test_the_limit_itself_is_allowed() -> None:
    assert read([part(b"0123456789")], declared=b"10") == (b"0123456789", 1)


def test_one_byte_more_is_not() -> None:
    with pytest.raises(BodyTooLarge, match="more than 10"):
        read([part(b"01234", True), part(b"567890")])


def test_a_declared_length_is_refused_unread() -> None:
    with pytest.raises(BodyTooLarge, match="11 bytes"):
        read([], declared=b"11")


def test_a_length_that_is_no_number_is_left_to_the_server() -> None:
    assert read([part(b"a")], declared=b"x") == (b"a", 1)


def test_a_body_that_does_not_come() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("nothing comes")

    with pytest.raises(BodyTimeout, match=r"within 0\.01 s"):
        asyncio.run(read_body({"type": "http", "headers": []}, receive, 10, 0.01))


def test_a_client_that_leaves() -> None:
    with pytest.raises(ClientGone):
        read([part(b"a", True), {"type": "http.disconnect"}])
