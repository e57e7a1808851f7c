"""Readers of one instance's journal leave a thread to those of others."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from sexton.replication.journal.model import JournalPage, JournalSnapshot
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas.sql.store import ReplicaStore
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig


@pytest.fixture
def api(database_url: str) -> Iterator[Api]:
    """The API of instances ``a``, ``b`` and ``c``."""
    rig = Rig(database_url).instance("a").instance("b").instance("c")
    with Api(rig) as served:
        yield served
    rig.db.close()


@pytest.mark.parametrize(
    "scopes", [["node:n1@b"], ["node:n1@b", "node:n2@b"], ["read@*"]], ids=["token", "two tokens", "two journals"]
)
def test_slow_readers_leave_a_thread_to_others(api: Api, monkeypatch: pytest.MonkeyPatch, scopes: list[str]) -> None:
    release, entered, read = threading.Event(), threading.Semaphore(0), JournalStore.read

    def waits(store: JournalStore, instance: str, after: int, follower: str = "") -> JournalPage:
        if instance != "a":
            entered.release()
            assert release.wait(PATIENCE_SECONDS)
        return read(store, instance, after, follower)

    def ask(scope: str, token: str, instance: str, timeout: int) -> int:
        follower = scope.removeprefix("node:").partition("@")[0] if scope.startswith("node:") else ""
        query = {"instance": instance, "follower": follower}
        head = {"Authorization": f"Bearer {token}"}
        return httpx.get(f"{api.url}/v1/journal", params=query, headers=head, timeout=timeout).status_code

    monkeypatch.setattr(JournalStore, "read", waits)
    instances = ["b"] if "*" not in scopes[0] else ["b", "c"]
    tokens = [(scope, api.token(scope)) for scope in scopes]
    with ThreadPoolExecutor(16) as senders:
        slow = [senders.submit(ask, *token, instance, 90) for token in tokens for instance in instances * 4]
        try:
            assert entered.acquire(timeout=60)
            answered = ask("node:n1@a", api.token("node:n1@a"), "a", 20)
            entered_more = entered.acquire(blocking=False)
        finally:
            release.set()
        codes = {answer.result() for answer in slow}

    assert (answered, entered_more, codes) == (200, False, {200})


def test_one_snapshot_of_a_journal_is_built_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered, snapshot = threading.Event(), threading.Semaphore(0), ReplicaStore.snapshot

    def waits(store: ReplicaStore, instance: str) -> JournalSnapshot:
        if instance != "a":
            entered.release()
            assert release.wait(PATIENCE_SECONDS)
        return snapshot(store, instance)

    def ask(token: str, instance: str) -> int:
        head = {"Authorization": f"Bearer {token}"}
        path = f"{api.url}/v1/journal/snapshot"
        return httpx.get(path, params={"instance": instance}, headers=head, timeout=90).status_code

    monkeypatch.setattr(ReplicaStore, "snapshot", waits)
    tokens = [api.token("read@b"), api.token("read@b")]
    with ThreadPoolExecutor(8) as senders:
        slow = [senders.submit(ask, token, "b") for token in tokens * 4]
        try:
            assert entered.acquire(timeout=60)
            answered = ask(api.token("read@a"), "a")
            entered_more = entered.acquire(blocking=False)
        finally:
            release.set()
        codes = {answer.result() for answer in slow}

    assert (answered, entered_more, codes) == (200, False, {200})
