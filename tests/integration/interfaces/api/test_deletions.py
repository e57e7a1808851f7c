"""A download holds a place and its file only until it was sent, and an incomplete one is refused."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.integration.interfaces.api.conftest import Ask
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.rig import Rig


@pytest.fixture
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


def test_what_the_log_has_lost_is_not_an_empty_file(ask: Ask, ended: int, root: Path) -> None:
    files = [path for path in root.rglob("*.parquet") if path.is_file()]
    files[0].write_bytes(b"garbage")
    damaged = ask("GET", f"/v1/rounds/{ended}/deletions", scope="read@shop")
    for file in files:
        file.unlink()
    lost = ask("GET", f"/v1/rounds/{ended}/deletions", scope="read@shop")

    assert files
    assert (damaged.status_code, damaged.json()["code"]) == (503, "AUDIT_UNREADABLE")
    assert (lost.status_code, lost.json()["code"]) == (410, "AUDIT_ENDED")


def test_a_round_of_another_instance_is_as_unknown_as_none(ask: Ask, rig: Rig, ended: int) -> None:
    rig.instance("b")
    details = {
        ask("GET", f"/v1/rounds/{n}{what}", scope="read@b").json()["detail"].replace(str(n), "N")
        for n in (ended, 999)
        for what in ("", "/deletions")
    }

    assert details == {"this needs a token of scope read, for the instance of the request; this one has read@b"}
