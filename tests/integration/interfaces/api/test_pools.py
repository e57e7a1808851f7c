"""Ordinary requests cannot keep stops, renewals and health checks waiting."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter

from sexton.interfaces.api import guarded_route
from sexton.interfaces.api.authentication import TokenVerifier
from sexton.operators.access import policy
from sexton.operators.access.errors import Unauthenticated
from sexton.operators.access.model import CallerIdentity
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
            stop = ask("POST", "/v1/stop", {"reason": "x", "everything": True})
            health = ask("GET", "/healthz")
        finally:
            release.set()
        codes = {answer.result().status_code for answer in answers}

    assert (stop.status_code, health.status_code, codes) == (200, 200, {200})


def test_large_body_is_parsed_beside_other_requests(api: Api, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered = threading.Event(), threading.Event()
    validated = guarded_route.validated

    def waits(body: bytes, adapter: TypeAdapter[object]) -> object:
        entered.set()
        assert release.wait(PATIENCE_SECONDS)
        return validated(body, adapter)

    monkeypatch.setattr(guarded_route, "validated", waits)
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
        answer = httpx.post(f"{api.url}/v1/stop", json={"reason": "x", "everything": True}, headers=headers)

    assert answer.status_code == 200
    assert {call.source for call in rig.operators.calls.last(10)} == {source}
