"""Large bodies of some senders do not keep those of others waiting."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import httpx
import pytest

from sexton.interfaces.api import large_bodies
from sexton.interfaces.api.errors import TooManyRequests
from sexton.interfaces.api.large_bodies import LargeBodies
from tests.servers.api import Api

HEARTBEAT = "/v1/nodes/n1/heartbeat"
LARGE = b'{"reports": []}' + b" " * 99_984
"""A valid body of 99,999 bytes."""


@pytest.fixture
def unfinished() -> Iterator[ExitStack]:
    """The connections of requests whose bodies never end."""
    with ExitStack() as stack:
        yield stack


def begin(api: Api, connections: ExitStack, path: str, headers: str, sender: str = "127.0.0.1") -> socket.socket:
    """Send a request's head and the first byte of its body."""
    connection = connections.enter_context(
        socket.create_connection(api.address, timeout=50, source_address=(sender, 0))
    )
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode() + b"{")
    return connection


def heartbeat(api: Api, token: str) -> int:
    """Send a large heartbeat, and return the status of its answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return httpx.post(api.url + HEARTBEAT, content=LARGE, headers=headers, timeout=50).status_code


def test_slow_bodies_of_two_tokens_keep_no_other_waiting(
    api: Api, unfinished: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "FREE_SECONDS", 300.0)
    own, others = api.token("node:n1@shop"), [api.token("node:n1@shop") for _ in range(2)]
    for token in others * 4:
        headers = f"Authorization: Bearer {token}\r\nContent-Length: 99999\r\n"
        begin(api, unfinished, HEARTBEAT, headers)
    for token in others:  # the server has read all heads when it refuses a fifth
        while heartbeat(api, token) != 503:
            pass

    assert [heartbeat(api, own) for _ in range(3)] == [200] * 3


def test_requests_without_a_token_have_no_place(
    api: Api, unfinished: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "FREE_SECONDS", 300.0)
    for sender in [f"127.0.0.{n}" for n in range(1, 10)]:
        begin(api, unfinished, "/v1/token", "Transfer-Encoding: chunked\r\n", sender)

    assert heartbeat(api, api.token("node:n1@shop")) == 200


def test_a_large_body_that_arrives_slowly_is_ended(
    api: Api, unfinished: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "FREE_SECONDS", 0.1)
    headers = f"Authorization: Bearer {api.token('node:n1@shop')}\r\nContent-Length: 99999\r\n"
    answer = begin(api, unfinished, HEARTBEAT, headers).makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"SLOW_BODY"' in answer


async def test_bodies_are_ended_until_the_shares_are_equal() -> None:
    lane, ended = LargeBodies(places=4, per_token=4), list[str]()

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def send(sender: str) -> None:
        try:
            async with lane.place(sender) as place:
                await place.receive(never(), 9)
        except TooManyRequests:
            ended.append(sender)

    bodies = list[asyncio.Task[None]]()
    for sender in ("a", "a", "a", "a", "b", "c", "b", "c"):
        bodies.append(asyncio.create_task(send(sender)))
        await asyncio.sleep(0.01)
    for body in bodies:
        body.cancel()
    await asyncio.gather(*bodies, return_exceptions=True)

    assert ended == ["a", "a"]


async def test_a_waiting_sender_without_a_place_is_next() -> None:
    lane, order = LargeBodies(places=2, per_token=4), list[str]()
    steps = {name: asyncio.Event() for name in ("a1", "a2", "a3", "b1")}

    async def hold(name: str) -> None:
        async with lane.place(name[0]):
            order.append(name)
            await steps[name].wait()

    bodies = [asyncio.create_task(hold(name)) for name in steps]
    await asyncio.sleep(0)
    for name in ("a1", "a2", "b1", "a3"):
        steps[name].set()
        await asyncio.sleep(0.01)
    await asyncio.gather(*bodies)

    assert order == ["a1", "a2", "b1", "a3"]
