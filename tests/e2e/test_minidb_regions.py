"""Purges of minidb's log lose no acknowledged row, over the real API."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.minidb.logs import entry
from examples.minidb.manifests import MANIFEST
from examples.minidb.maps import Maps
from examples.minidb.node import Node
from examples.minidb.regions import Closed
from examples.minidb.serving import serving
from sexton.client import RequestRefused
from sexton.wal import flushing
from sexton.wal.flushing import Flusher
from sexton.wal.messages import NodeAddresses
from sexton.wal.model import Flushed
from sexton.wal.nodes import HttpFlushClient
from sexton.wal.port import ReplayRefused
from tests.e2e.regions import A, B, Regions
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

pytestmark = pytest.mark.slow

SECRET = "flush-" * 6


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Regions]:
    rig = Rig(new_database()).instance()
    (tmp_path / "minidb").mkdir()
    with Api(rig) as api:
        setup = Regions(rig, api, tmp_path / "minidb")
        setup.node.create("r1", A)
        setup.node.create("r2", A)
        with setup.client, setup.owner:
            yield setup


def test_replay_after_a_crash_restores_every_acknowledged_row(regions: Regions) -> None:
    for _ in range(3):
        regions.append("r1", 5)
        regions.append("r2", 7)
        regions.node.flush("r1")
        regions.purge()
    regions.append("r1", 3)
    regions.reopen("r1", "r2")
    regions.append("r2")
    regions.node.flush("r2")
    regions.reopen("r1", "r2", epoch=3)

    assert regions.are_complete("r1", "r2")
    assert len(regions.node.rows("r1")) == 18


def test_w25_append_under_way_is_above_the_idle_mark(regions: Regions) -> None:
    regions.append("r2")
    regions.node.flush("r2")
    before = regions.purge()
    written, answered = threading.Event(), threading.Event()
    regions.log.appended = lambda: (written.set(), answered.wait(PATIENCE_SECONDS))
    append = threading.Thread(target=regions.append, args=("r1",))
    append.start()
    assert written.wait(PATIENCE_SECONDS)  # the log has entry 1, and the node does not know yet
    during = regions.purge()
    answered.set()
    append.join()

    assert (before, during, regions.purge()) == (1, 1, 1)
    regions.reopen("r1", "r2")
    assert regions.are_complete("r1", "r2")


def test_w25_append_during_a_report_is_above_the_idle_mark(regions: Regions) -> None:
    regions.append("r2")
    regions.node.flush("r2")
    before = regions.purge()
    regions.log.before_facts = lambda: regions.append("r1")

    assert (before, regions.purge()) == (1, 1)
    regions.reopen("r1")
    assert regions.are_complete("r1")


def test_w26_region_is_mapped_before_its_first_append(regions: Regions) -> None:
    regions.append("r1", 5)
    regions.node.flush("r1")
    regions.purge()
    regions.node.create("r3", A)
    regions.append("r3")
    regions.node.crash()
    regions.node.open("r1", 2)
    regions.node.open("r2", 2)

    assert regions.purge() == 5
    regions.node.open("r3", 2)
    assert regions.are_complete("r1", "r2", "r3")


def test_w26_region_with_a_refused_map_accepts_no_row(regions: Regions) -> None:
    maps = Maps(regions.client, regions.log, regions.directory / "other.json")  # a node's token is none of an owner
    node = Node("n1", regions.client, regions.log, maps, regions.directory)

    with pytest.raises(RequestRefused, match="owner"):
        node.create("r3", A)
    with pytest.raises(Closed):
        node.append("r3", "a row")

    assert regions.readable_entries() == []


def test_w28_moved_region_blocks_its_old_topic_until_flushed(regions: Regions) -> None:
    regions.append("r1", 5)
    regions.append("r2", 5)
    regions.node.flush("r2")
    regions.node.move("r1", B)
    regions.append("r1", 3, topic=B)

    assert [regions.purge(), regions.purge()] == [0, 0]
    regions.reopen("r1", "r2")
    assert regions.are_complete("r1", "r2")
    regions.node.flush("r1")
    assert (regions.purge(), regions.purge(), regions.purge(B)) == (10, 10, 3)
    assert (regions.mapped(A), regions.mapped(B)) == (["r2"], ["r1"])
    regions.reopen("r1", "r2", epoch=3)
    assert regions.are_complete("r1", "r2")
    assert regions.maps.of("r1") == {B: "here"}


def test_region_flushes_on_a_signed_http_request(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "POLL_SECONDS", 0.02)

    def flush(secret: str) -> Flushed:
        http = HttpFlushClient(NodeAddresses(loopback=True), secret=secret)
        return Flusher(regions.wal.floors, http, 20, regions.wal.purger.preview).flush(A, lambda: None)

    last = regions.append("r1", 30)
    with serving(regions.node, SECRET):
        regions.purge()
        refused = [flush(secret) for secret in ("", SECRET[::-1])]
        kept = regions.purge()
        flushed = flush(SECRET)

    assert [(f.asked, f.flushed, "403" in next(iter(f.silent.values()))) for f in refused] == [(0, 0, True)] * 2
    assert (kept, flushed) == (0, Flushed(asked=1, flushed=1))
    assert regions.purge() == last + 1
    assert regions.are_complete("r1")


def test_dropped_region_blocks_nothing_and_is_not_opened(regions: Regions) -> None:
    regions.append("r1", 5)
    regions.append("r2", 5)
    regions.node.flush("r2")
    held = regions.purge()
    regions.node.drop("r1")

    assert (held, regions.purge()) == (0, 10)
    assert regions.mapped(A) == ["r2"]
    with pytest.raises(Closed):
        regions.node.append("r1", "a row")
    with pytest.raises(Exception, match="dropped"):
        regions.node.open("r1", 2)


@pytest.mark.parametrize("moved", [False, True], ids=["in one topic", "older than a move"])
def test_restored_manifest_replays_missing_rows_or_is_refused(regions: Regions, moved: bool) -> None:
    regions.append("r1", 3)
    regions.node.flush("r1")
    manifest = regions.directory / "r1" / MANIFEST
    backup = manifest.read_text()
    if moved:
        regions.node.move("r1", B)
    regions.append("r1", 3, topic=B if moved else A)
    regions.node.flush("r1")
    regions.node.crash()
    manifest.write_text(backup)
    regions.node.open("r1", 2)
    whole = regions.are_complete("r1")
    regions.node.flush("r1")
    regions.append("r1", topic=B if moved else A)
    regions.node.flush("r1")
    regions.node.open("r2", 2)
    purged = regions.purge(B if moved else A)
    regions.node.crash()
    manifest.write_text(backup)

    assert whole
    assert purged == (4 if moved else 7)
    with pytest.raises(ReplayRefused, match="deleted"):
        regions.node.open("r1", 3)


def test_restored_manifest_of_a_moved_region_is_refused(regions: Regions) -> None:
    manifest = regions.directory / "r1" / MANIFEST
    backup = manifest.read_text()
    regions.append("r1", 3)
    regions.node.move("r1", B)
    regions.node.flush("r1")
    regions.purge()
    regions.purge()
    regions.node.crash()
    manifest.write_text(backup)

    with pytest.raises(RequestRefused, match="not mapped"):
        regions.node.open("r1", 2)


def test_entries_of_an_unknown_region_are_skipped(regions: Regions) -> None:
    regions.log.append(A, [entry("elsewhere", "a row")])
    regions.append("r1", 2)
    regions.reopen("r1", "r2")

    assert regions.are_complete("r1", "r2")
