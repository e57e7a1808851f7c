"""Each method of the API is declared once and works in both clients."""

import asyncio
from contextlib import nullcontext
from typing import Any

import httpx
import pytest

from sexton.client import AsyncSexton, Sexton, Unreachable
from sexton.client.api_call import ApiCall, Steps, request, request_of
from sexton.client.methods import ApiMethod
from sexton.client.sending import (
    AsyncSender,
    SyncSender,
    final_answer,
    last_answer,
    may_repeat,
    request_options,
)
from sexton.operations.registry import operations

PING = ApiCall[str]("GET", "/v1/ping", str)
REQUEST = httpx.Request("GET", "http://127.0.0.1:1/v1/ping")
BUSY = httpx.HTTPStatusError("busy", request=REQUEST, response=httpx.Response(503, request=REQUEST))


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


def test_a_method_sends_its_requests_and_returns_their_result() -> None:
    assert Echo().ping(times=3) == asyncio.run(AsyncEcho().ping(3)) == "/v1/ping/3"
    assert Echo().ping_twice() == asyncio.run(AsyncEcho().ping_twice()) == ("/v1/ping/1", "/v1/ping/2")


def test_every_operation_with_a_route_is_a_method() -> None:
    clients = Sexton("http://127.0.0.1:1", "token"), AsyncSexton("http://127.0.0.1:1", "token")
    for operation in operations().values():
        if operation.paths and not operation.function.__module__.endswith("signals"):
            for client in clients:
                method = getattr(client, operation.function.__name__)
                assert method.__doc__ == operation.about, operation.name
    for name in ("no_such_method", "instance_of"):  # this one is a function of a module, and no operation
        with pytest.raises(AttributeError):
            getattr(clients[0], name)


def test_a_request_takes_the_longest_path_that_has_values() -> None:
    assert request("explain_log", db="sales").path == "/v1/databases/sales/binlog"
    assert request("explain_log", db="sales", table="a/b").path == "/v1/databases/sales/tables/a%2Fb/binlog"
    assert request_of(operations()["round pause"], {"instance": "shop"}).method == "POST"
    with pytest.raises(TypeError, match="takes no colour"):
        request("plan", instance="shop", colour="red")
    with pytest.raises(TypeError, match="needs instance"):
        request("plan")
    for name, values in (("binlog drop", {"db": "d", "table": ""}), ("hold add", {"instance": ""})):
        with pytest.raises(TypeError, match="is empty"):
            request_of(operations()[name], values)


def test_both_clients_have_the_same_nonblocking_methods() -> None:
    sync, asynchronous = ({name for name in dir(c) if not name.startswith("_")} for c in (Sexton, AsyncSexton))

    assert sync - asynchronous == {"follow", "replay"}
    assert asynchronous - sync == set()


def test_unrepeatable_request_is_resent_only_if_it_never_arrived() -> None:
    refused, slow, plan = httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), request("plan", instance="shop")

    assert [may_repeat(plan, error) for error in (refused, slow, BUSY)] == [True, False, False]
    assert [may_repeat(request("status"), error) for error in (slow, BUSY)] == [True, True]


def test_a_body_that_arrived_slowly_is_sent_again() -> None:
    for status, is_temporary in ((408, True), (503, True), (413, False), (422, False)):
        with pytest.raises(httpx.HTTPStatusError) if is_temporary else nullcontext():
            assert final_answer(httpx.Response(status, request=REQUEST)).status_code == status


def test_last_answer_is_returned_and_silence_is_unreachable() -> None:
    assert last_answer(PING, BUSY).status_code == 503
    with pytest.raises(Unreachable, match="GET /v1/ping was not answered: slow"):
        last_answer(PING, httpx.ReadTimeout("slow"))


def test_callers_timeout_replaces_that_of_the_call() -> None:
    poll = ApiCall[str]("GET", "/v1/ping", str, timeout_seconds=60)
    timeouts = [request_options(call, own)["timeout"] for call, own in ((poll, None), (poll, 5), (PING, None))]

    assert timeouts == [60, 5, httpx.USE_CLIENT_DEFAULT]
