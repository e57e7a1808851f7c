"""Requests and downloads hold a limited number of places, and keep no stop, renewal or health check waiting."""

import asyncio
import gc
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter

from sexton.interfaces.api import guarded_route
from sexton.interfaces.api.authentication import TokenVerifier
from sexton.operators.access import policy
from sexton.operators.access.model import CallerIdentity, Unauthenticated
from sexton.operators.access.policy import Presented
from sexton.operators.access.store import TokenStore
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.shared import api, rig, root
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.rig import Rig

__all__ = ["api", "rig", "root"]


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
        answers = [senders.submit(httpx.get, f"{api.url}/v1/status", headers=h) for h in headers]
        try:
            for _ in range(8):
                assert entered.acquire(timeout=PATIENCE_SECONDS)
            stop = ask("POST", "/v1/stop", {"reason": "x", "everything": True})
            health = ask("GET", "/healthz")
        finally:
            release.set()
        codes = {answer.result().status_code for answer in answers}
    ask("POST", "/v1/start", {"everything": True})

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


def test_only_a_trusted_proxy_names_the_client(rig: Rig, subtests: pytest.Subtests) -> None:
    for proxies, forwarded, source in [
        ([], "198.51.100.7", "127.0.0.1"),
        (["10.0.0.0/8"], "198.51.100.7", "127.0.0.1"),
        (["127.0.0.1"], "198.51.100.7", "198.51.100.7"),
        (["127.0.0.0/8", "10.0.0.0/8"], "203.0.113.9, 198.51.100.7, 10.1.1.1", "198.51.100.7"),
        (["127.0.0.1"], "no address\u00e9", "unknown"),
    ]:
        with subtests.test(proxies=proxies, forwarded=forwarded), Api(rig, api={"trusted_proxies": proxies}) as api:
            token = f"Bearer {api.token('operate@*')}"
            headers = {"Authorization": token, "X-Forwarded-For": forwarded.encode("latin-1")}
            answer = httpx.post(f"{api.url}/v1/instances/shop/enable", headers=headers)

            assert answer.status_code == 200
            assert [call.source for call in rig.operators.calls.last(1)] == [source]


@pytest.fixture(scope="module")
def ended(rig: Rig, root: Path) -> int:
    """Return a round whose deletions are in the log of deletions."""
    worker = Rig(rig.url, audit=ParquetAudit(AuditLocations(rig.vaults, rig.registry.vaults), 400))
    report = worker.round()
    worker.db.close()
    return report.round


def open_files() -> int:
    """Return how many files that were removed from their directory are open in this process."""
    links = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except OSError:
            continue  # closed meanwhile
    return sum(link.endswith("(deleted)") for link in links)


def test_a_client_that_leaves_closes_the_file(api: Api, ended: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(api.app.state.service.stores.audit.rows(ended))
    many = [row._replace(key=f"{row.key}{n * 7_919 % 1_000_003}") for n in range(60_000) for row in rows[:1]]
    monkeypatch.setattr(AuditReader, "rows", lambda *_: iter(many))
    gc.disable()
    before = open_files()
    headers = {"Authorization": f"Bearer {api.token('read@shop')}"}
    for _ in range(3):
        with httpx.stream("GET", f"{api.url}/v1/rounds/{ended}/deletions", headers=headers) as answer:
            assert answer.status_code == 200
            next(answer.iter_raw(1_000))
    try:
        eventually("no file of a download is open", lambda: open_files() <= before)
    finally:
        gc.enable()


def test_downloads_do_not_delay_other_requests(ask: Ask, api: Api, ended: int, monkeypatch: pytest.MonkeyPatch) -> None:
    end, begun = threading.Event(), threading.Event()

    def wait(*_: object) -> Iterator[AuditRow]:
        begun.set()
        end.wait(PATIENCE_SECONDS)
        return iter(())

    monkeypatch.setattr(AuditReader, "rows", wait)
    url = f"{api.url}/v1/rounds/{ended}/deletions"
    headers = [{"Authorization": f"Bearer {api.token('read@shop')}"} for _ in range(4)]
    threads = [threading.Thread(target=httpx.get, args=[url], kwargs={"headers": h, "timeout": 60}) for h in headers]
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE_SECONDS)
    answer = ask("GET", "/v1/status?instance=shop", scope="read@shop")
    is_waiting = [thread.is_alive() for thread in threads]
    end.set()
    for thread in threads:
        thread.join()

    assert answer.status_code == 200
    assert is_waiting == [True] * 4


def test_what_the_log_has_lost_is_not_an_empty_file(ask: Ask, rig: Rig, ended: int, root: Path) -> None:
    rig.instance("b")
    unknown = {
        ask("GET", f"/v1/rounds/{n}{what}", scope="read@b").json()["detail"].replace(str(n), "N")
        for n in (ended, 999)
        for what in ("", "/deletions")
    }
    files = [path for path in root.rglob("*.parquet") if path.is_file()]
    files[0].write_bytes(b"garbage")
    damaged = ask("GET", f"/v1/rounds/{ended}/deletions", scope="read@shop")
    for file in files:
        file.unlink()
    lost = ask("GET", f"/v1/rounds/{ended}/deletions", scope="read@shop")

    assert unknown == {"this needs a token of scope read, for the instance of the request; this one has read@b"}
    assert (damaged.status_code, damaged.json()["code"]) == (503, "AUDIT_UNREADABLE")
    assert (lost.status_code, lost.json()["code"]) == (410, "AUDIT_ENDED")
