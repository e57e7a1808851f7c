"""Each method of the API is declared once and works in both clients."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import httpx
import pytest

from sexton.client import AsyncSexton, Sexton, Unreachable, calls
from sexton.client.api_call import ApiCall, Steps
from sexton.client.methods import ApiMethods
from sexton.client.retrying import TemporaryAnswer, final_answer, last_answer, may_repeat, request_options
from sexton.client.sender import ApiMethod, AsyncSender, SyncSender

PING = ApiCall[str]("GET", "/v1/ping", str)
METHODS = [name for name, value in vars(ApiMethods).items() if isinstance(value, ApiMethod)]


def ping(times: int = 1) -> ApiCall[str]:
    """Return one request."""
    return ApiCall("GET", f"/v1/ping/{times}", str)


def ping_twice() -> Steps[tuple[str, str]]:
    """Send two requests."""
    first: str = yield ping(1)
    second: str = yield ping(2)
    return first, second


class Methods:
    ping = ApiMethod(ping)
    ping_twice = ApiMethod(ping_twice)


class Echo(Methods, SyncSender):
    def send(self, call: ApiCall[Any], *_: object, **__: object) -> Any:
        return call.path


class AsyncEcho(Methods, AsyncSender):
    async def send(self, call: ApiCall[Any], *_: object, **__: object) -> Any:
        return call.path


def test_a_method_sends_the_request_of_its_function() -> None:
    assert Echo().ping(times=3) == "/v1/ping/3"
    assert asyncio.run(AsyncEcho().ping(3)) == "/v1/ping/3"


def test_a_method_of_several_requests_returns_their_result() -> None:
    assert Echo().ping_twice() == ("/v1/ping/1", "/v1/ping/2")
    assert asyncio.run(AsyncEcho().ping_twice()) == ("/v1/ping/1", "/v1/ping/2")


def test_a_method_has_its_functions_docstring_in_both_clients() -> None:
    for name in METHODS:
        sync: Callable[..., Any] = getattr(Sexton, name)

        assert sync.__doc__, name
        assert sync is getattr(AsyncSexton, name), name


def test_both_clients_have_the_same_nonblocking_methods() -> None:
    sync, asynchronous = ({name for name in dir(c) if not name.startswith("_")} for c in (Sexton, AsyncSexton))

    assert sync - asynchronous == {"follow", "replay"}
    assert asynchronous - sync == set()


def test_unrepeatable_request_is_resent_only_if_it_never_arrived() -> None:
    assert may_repeat(calls.plan("shop"), httpx.ConnectError("refused"))
    assert not may_repeat(calls.plan("shop"), httpx.ReadTimeout("slow"))
    assert not may_repeat(calls.plan("shop"), TemporaryAnswer(httpx.Response(503)))
    assert may_repeat(calls.status(), httpx.ReadTimeout("slow"))
    assert may_repeat(calls.status(), TemporaryAnswer(httpx.Response(503)))


@pytest.mark.parametrize(("status", "is_temporary"), [(408, True), (503, True), (413, False), (422, False)])
def test_a_body_that_arrived_slowly_is_sent_again(status: int, is_temporary: bool) -> None:
    with pytest.raises(TemporaryAnswer) if is_temporary else nullcontext():
        assert final_answer(httpx.Response(status)).status_code == status


def test_last_answer_is_returned_and_silence_is_unreachable() -> None:
    assert last_answer(PING, TemporaryAnswer(httpx.Response(503))).status_code == 503
    with pytest.raises(Unreachable, match="GET /v1/ping was not answered: slow"):
        last_answer(PING, httpx.ReadTimeout("slow"))


def test_callers_timeout_replaces_that_of_the_call() -> None:
    poll = ApiCall[str]("GET", "/v1/ping", str, timeout_seconds=60)

    assert request_options(poll, None)["timeout"] == 60
    assert request_options(poll, 5)["timeout"] == 5
    assert request_options(PING, None)["timeout"] is httpx.USE_CLIENT_DEFAULT
