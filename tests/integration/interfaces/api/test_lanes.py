"""Ordinary requests cannot keep stops, renewals and health checks waiting."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from sexton.interfaces.api import guarded_route
from sexton.interfaces.api.caller import Caller, Deed
from sexton.interfaces.api.errors import TooManyRequests
from sexton.interfaces.api.lanes import RequestLane
from sexton.interfaces.api.parsing import BodyValidator
from sexton.interfaces.api.token_verifier import TokenVerifier
from sexton.operators.access import policy
from sexton.operators.access.errors import Unauthenticated
from sexton.operators.access.model import CallerIdentity, Grant
from sexton.operators.access.policy import Presented
from sexton.operators.access.sql.tokens import TokenStore
from tests.integration.interfaces.api.conftest import Ask
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig


@pytest.mark.slow
def test_stop_runs_while_every_ordinary_place_is_taken(api: Api, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered = threading.Event(), threading.Semaphore(0)
    service = api.app.state.service
    status = service.status

    def waits(instance: str | None) -> object:
        entered.release()
        assert release.wait(PATIENCE_SECONDS)
        return status(instance)

    monkeypatch.setattr(service, "status", waits)
    headers = [{"Authorization": f"Bearer {api.token('read')}"} for _ in range(60)]
    with ThreadPoolExecutor(60) as senders:
        answers = [senders.submit(httpx.get, f"{api.url}/v1/status", headers=h, timeout=90) for h in headers]
        try:
            for _ in range(8):
                assert entered.acquire(timeout=60)
            stop = ask("POST", "/v1/stop", {"reason": "x"})
            health = ask("GET", "/healthz")
        finally:
            release.set()
        codes = {answer.result().status_code for answer in answers}

    assert (stop.status_code, health.status_code, codes) == (200, 200, {200})


def test_one_token_leaves_ordinary_places_to_others(api: Api, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered = threading.Event(), threading.Semaphore(0)
    service, slow = api.app.state.service, api.token("read")
    status = service.status

    def waits(instance: str | None) -> object:
        if instance == "shop":
            entered.release()
            assert release.wait(PATIENCE_SECONDS)
        return status(instance)

    monkeypatch.setattr(service, "status", waits)
    headers = {"Authorization": f"Bearer {slow}"}
    with ThreadPoolExecutor(12) as senders:
        url = f"{api.url}/v1/status?instance=shop"
        answers = [senders.submit(httpx.get, url, headers=headers, timeout=90) for _ in range(12)]
        try:
            for _ in range(2):
                assert entered.acquire(timeout=60)
            other = ask("GET", "/v1/status")
            entered_more = entered.acquire(blocking=False)
        finally:
            release.set()
        codes = {answer.result().status_code for answer in answers}

    assert (other.status_code, entered_more, codes) == (200, False, {200})


@pytest.mark.parametrize(
    ("jobs", "requests", "other"),
    [
        (4, 4, ("operate@*", "/v1/stop", 200)),
        (1, 12, ("sync:other@shop", "/v1/instances/shop/protections/other/renew", 404)),
    ],
    ids=["stop behind jobs", "job behind another"],
)
def test_requests_of_jobs_leave_places_to_others(
    api: Api, monkeypatch: pytest.MonkeyPatch, jobs: int, requests: int, other: tuple[str, str, int]
) -> None:
    scope, path, status = other
    release, entered = threading.Event(), threading.Semaphore(0)
    recorded = Caller.recorded

    def waits(caller: Caller, deed: Deed, *, keeps: bool = False) -> object:
        if caller.scopes[0].grant is Grant.SYNC:
            entered.release()
            assert release.wait(PATIENCE_SECONDS)
        return recorded(caller, deed, keeps=keeps)

    monkeypatch.setattr(Caller, "recorded", waits)
    tokens = [api.token(f"sync:job{n}@shop") for n in range(jobs)] * requests
    with ThreadPoolExecutor(len(tokens)) as senders:
        refused = [senders.submit(_post, f"{api.url}/v1/stop", token, 90) for token in tokens]
        try:
            for _ in range(2 * jobs):
                assert entered.acquire(timeout=60)
            answered = _post(api.url + path, api.token(scope), 20)
            entered_more = entered.acquire(blocking=False)
        finally:
            release.set()
        codes = {answer.result() for answer in refused}

    assert (answered, entered_more, codes) == (status, False, {403})


def _post(url: str, token: str, timeout: int) -> int:
    body = {"ttl_seconds": 60} if url.endswith("/renew") else {"reason": "x"}
    return httpx.post(url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=timeout).status_code


def test_stop_in_chunks_does_not_wait_for_large_bodies(api: Api, ask: Ask) -> None:
    path = "/v1/instances/shop/protections/copy/chunks/0"
    tokens = [api.token("sync:copy@shop") for _ in range(2)]
    with ExitStack() as uploads:
        for token in tokens * 4:
            head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 99999\r\n\r\n"
            upload = uploads.enter_context(socket.create_connection(api.address))
            upload.sendall(head.encode())
        for token in tokens:  # the server has read all heads when it refuses a fifth upload
            headers = {"Authorization": f"Bearer {token}"}
            while httpx.put(api.url + path, content=b" " * 99_999, headers=headers).status_code != 503:
                pass
        stop = ask("POST", "/v1/stop", chunks=[b'{"reason":', b'"x"}'])

    assert stop.status_code == 200


def test_large_body_is_parsed_beside_other_requests(api: Api, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered = threading.Event(), threading.Event()
    parse = guarded_route.parse

    def waits(body: bytes, validator: BodyValidator) -> object:
        entered.set()
        assert release.wait(PATIENCE_SECONDS)
        return parse(body, validator)

    monkeypatch.setattr(guarded_route, "parse", waits)
    with ThreadPoolExecutor(1) as sender:
        upload = sender.submit(ask, "PUT", "/v1/instances/shop/protections/copy/chunks/0", "x" * 99_999)
        try:
            assert entered.wait(PATIENCE_SECONDS)
            health = ask("GET", "/healthz")
        finally:
            release.set()

    assert (health.status_code, upload.result().status_code) == (200, 422)


async def test_requests_that_wait_are_authenticated_together(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = TokenStore(rig.db).create(policy.scope("operate@*"), 1, "test")
    sizes = list[int]()
    verify = TokenStore.verify

    def counted(store: TokenStore, presented: Sequence[Presented]) -> object:
        sizes.append(len(presented))
        return verify(store, presented)

    monkeypatch.setattr(TokenStore, "verify", counted)
    headers = [f"Bearer {secret}"] + [f"Bearer sxt_{n:012x}_{'x' * 43}" for n in range(700)]
    check = TokenVerifier(TokenStore(rig.db))
    verdicts = await asyncio.gather(*(check.authenticate(each) for each in headers), return_exceptions=True)

    assert [type(verdict) for verdict in verdicts] == [CallerIdentity] + [Unauthenticated] * 700
    assert sizes == [500, 201]


async def test_one_token_has_a_share_of_a_lane() -> None:
    lane, holding = RequestLane(places=1, per_token=2), asyncio.Event()

    async def hold(token: str) -> str:
        async with lane.place(token):
            await holding.wait()
        return token

    requests = [asyncio.create_task(hold(token)) for token in ("a", "a", "b")]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await hold("a")
    holding.set()

    assert await asyncio.gather(*requests, hold("a")) == ["a", "a", "b", "a"]


def _sources(rig: Rig) -> set[str]:
    return {call.source for call in rig.operators.calls.last(10)}


@pytest.mark.parametrize(
    ("proxies", "forwarded", "source"),
    [
        ([], "198.51.100.7", "127.0.0.1"),
        (["10.0.0.0/8"], "198.51.100.7", "127.0.0.1"),
        (["127.0.0.1"], "198.51.100.7", "198.51.100.7"),
        (["127.0.0.0/8", "10.0.0.0/8"], "203.0.113.9, 198.51.100.7, 10.1.1.1", "198.51.100.7"),
        (["127.0.0.1"], "no address\u00e9", "unknown"),
    ],
)
def test_only_a_trusted_proxy_names_the_client(
    rig: Rig, root: Path, proxies: list[str], forwarded: str, source: str
) -> None:
    with Api(rig, api={"trusted_proxies": proxies}) as api:
        headers = {"Authorization": f"Bearer {api.token('operate@*')}", "X-Forwarded-For": forwarded.encode("latin-1")}
        answer = httpx.post(f"{api.url}/v1/stop", json={"reason": "x"}, headers=headers)

    assert answer.status_code == 200
    assert _sources(rig) == {source}
