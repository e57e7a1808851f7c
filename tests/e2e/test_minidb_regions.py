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
from sexton.wal.model import Flushed
from sexton.wal.nodes import HttpFlushClient
from sexton.wal.port import ReplayRefused
from tests.e2e.topics import A, B, Field
from tests.servers.api import Api
from tests.support.rig import Rig


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}")
    (tmp_path / "minidb").mkdir()
    with Api(rig) as api:
        its = Field(rig, api, tmp_path / "minidb")
        its.node.create("r1", A)
        its.node.create("r2", A)
        with its.client, its.owner:
            yield its


def test_topic_shrinks_by_entries_that_all_regions_flushed(field: Field) -> None:
    field.append("r1", 20)
    field.purge()  # r2 is idle
    last = field.append("r2", 20)
    field.node.flush("r1")
    held = field.purge()
    field.node.flush("r2")

    assert held == 20
    assert field.purge() == last + 1
    assert field.there() == [last]
    field.reopen("r1", "r2")
    assert field.whole("r1", "r2")


def test_replay_after_a_crash_restores_every_acknowledged_row(field: Field) -> None:
    for _ in range(3):
        field.append("r1", 5)
        field.append("r2", 7)
        field.node.flush("r1")
        field.purge()
    field.append("r1", 3)
    field.reopen("r1", "r2")
    field.append("r2")
    field.node.flush("r2")
    field.reopen("r1", "r2", epoch=3)

    assert field.whole("r1", "r2")
    assert len(field.node.rows("r1")) == 18


def test_w25_append_under_way_is_above_the_idle_mark(field: Field) -> None:
    field.append("r2")
    field.node.flush("r2")
    before = field.purge()
    written, answered = threading.Event(), threading.Event()
    field.log.appended = lambda: (written.set(), answered.wait(20))
    append = threading.Thread(target=field.append, args=("r1",))
    append.start()
    assert written.wait(20)  # the log has entry 1, and the node does not know yet
    during = field.purge()
    answered.set()
    append.join()

    assert (before, during, field.purge()) == (1, 1, 1)
    field.reopen("r1", "r2")
    assert field.whole("r1", "r2")


def test_w25_append_during_a_report_is_above_the_idle_mark(field: Field) -> None:
    field.append("r2")
    field.node.flush("r2")
    before = field.purge()
    field.log.before_facts = lambda: field.append("r1")

    assert (before, field.purge()) == (1, 1)
    field.reopen("r1")
    assert field.whole("r1")


def test_w26_region_is_mapped_before_its_first_append(field: Field) -> None:
    field.append("r1", 5)
    field.node.flush("r1")
    field.purge()
    field.node.create("r3", A)
    field.append("r3")
    field.node.crash()
    field.node.open("r1", 2)
    field.node.open("r2", 2)

    assert field.purge() == 5
    field.node.open("r3", 2)
    assert field.whole("r1", "r2", "r3")


def test_w26_region_with_a_refused_map_accepts_no_row(field: Field) -> None:
    maps = Maps(field.client, field.log, field.directory / "other.json")  # a node's token is none of an owner
    node = Node("n1", field.client, field.log, maps, field.directory)

    with pytest.raises(RequestRefused, match="operate"):
        node.create("r3", A)
    with pytest.raises(Closed):
        node.append("r3", "a row")

    assert field.there() == []


def test_w28_moved_region_blocks_its_old_topic_until_flushed(field: Field) -> None:
    field.append("r1", 5)
    field.append("r2", 5)
    field.node.flush("r2")
    field.node.move("r1", B)
    field.append("r1", 3, topic=B)

    assert [field.purge(), field.purge()] == [0, 0]
    field.reopen("r1", "r2")
    assert field.whole("r1", "r2")
    field.node.flush("r1")
    assert (field.purge(), field.purge(), field.purge(B)) == (10, 10, 3)
    assert (field.names(A), field.names(B)) == (["r2"], ["r1"])
    field.reopen("r1", "r2", epoch=3)
    assert field.whole("r1", "r2")
    assert field.maps.of("r1") == {B: "here"}


def test_region_flushes_on_an_http_request(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "POLL_SECONDS", 0.02)
    http = HttpFlushClient()
    with serving(field.node):
        last = field.append("r1", 30)
        field.purge()
        told = Flusher(field.wal.floors, http, 20, field.wal.purger.look).flush([A], lambda: None)
    http.close()

    assert told == Flushed(asked=1, flushed=1)
    assert field.purge() == last + 1
    assert field.whole("r1")


def test_dropped_region_blocks_nothing_and_is_not_opened(field: Field) -> None:
    field.append("r1", 5)
    field.append("r2", 5)
    field.node.flush("r2")
    held = field.purge()
    field.node.drop("r1")

    assert (held, field.purge()) == (0, 10)
    assert field.names(A) == ["r2"]
    with pytest.raises(Closed):
        field.node.append("r1", "a row")
    with pytest.raises(Exception, match="dropped"):
        field.node.open("r1", 2)


@pytest.mark.parametrize("moved", [False, True], ids=["in one topic", "older than a move"])
def test_restored_manifest_replays_missing_rows_or_is_refused(field: Field, moved: bool) -> None:
    field.append("r1", 3)
    field.node.flush("r1")
    manifest = field.directory / "r1" / MANIFEST
    backup = manifest.read_text()
    if moved:
        field.node.move("r1", B)
    field.append("r1", 3, topic=B if moved else A)
    field.node.flush("r1")
    field.node.crash()
    manifest.write_text(backup)
    field.node.open("r1", 2)
    whole = field.whole("r1")
    field.node.flush("r1")
    field.append("r1", topic=B if moved else A)
    field.node.flush("r1")
    field.node.open("r2", 2)
    purged = field.purge(B if moved else A)
    field.node.crash()
    manifest.write_text(backup)

    assert whole
    assert purged == (4 if moved else 7)
    with pytest.raises(ReplayRefused, match="deleted"):
        field.node.open("r1", 3)


def test_restored_manifest_of_a_moved_region_is_refused(field: Field) -> None:
    manifest = field.directory / "r1" / MANIFEST
    backup = manifest.read_text()
    field.append("r1", 3)
    field.node.move("r1", B)
    field.node.flush("r1")
    field.purge()
    field.purge()
    field.node.crash()
    manifest.write_text(backup)

    with pytest.raises(RequestRefused, match="not mapped"):
        field.node.open("r1", 2)


def test_entries_of_an_unknown_region_are_skipped(field: Field) -> None:
    field.log.append(A, [entry("elsewhere", "a row")])
    field.append("r1", 2)
    field.reopen("r1", "r2")

    assert field.whole("r1", "r2")
