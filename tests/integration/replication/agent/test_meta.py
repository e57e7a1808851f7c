"""A sweep never works in a missing or foreign data directory."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.port import NoStore, OtherBackend, StoreFault
from tests.integration.replication.agent.node import Node


def _granted(node: Node) -> Node:
    node.tablet("a")
    for version in range(6):
        node.binlog("a", version)
    node.granted.grant("a", 5)
    return node


@pytest.mark.parametrize("what", ["no directory", "an empty directory", "an empty file", "no SQLite", "no id"])
def test_an_unmounted_disk_acknowledges_nothing(node: Node, what: str) -> None:
    _granted(node)
    node.meta.close()
    mounted = node.directory.with_name("elsewhere")
    node.directory.rename(mounted)
    if what != "no directory":
        node.directory.mkdir()
    if what == "an empty file":
        (node.directory / "meta.db").touch()
    elif what == "no SQLite":
        (node.directory / "meta.db").write_bytes(b"nothing of the kind" * 1_000)
    elif what == "no id":
        SqliteMeta.create(node.directory, "7")
        with closing(sqlite3.connect(node.directory / "meta.db")) as c, c:
            c.execute("DELETE FROM entry")

    with pytest.raises(NoStore):
        node.sweep()

    assert node.granted.answers == []
    assert what == "no id" or not (node.directory / "meta.db-wal").exists()
    assert what in ("an empty file", "no SQLite", "no id") or not (node.directory / "meta.db").exists()


def test_an_unmounted_disk_is_reported_without_any_grant(node: Node) -> None:
    node.directory.rename(node.directory.with_name("elsewhere"))

    with pytest.raises(NoStore, match="mounted"):
        node.sweep()


def test_another_backends_directory_is_refused(tmp_path: Path) -> None:
    SqliteMeta.create(tmp_path, "8")

    with pytest.raises(OtherBackend, match="backend 8, this one is 7"), SqliteMeta(tmp_path, "7").proven():
        pass
    with pytest.raises(OtherBackend):
        SqliteMeta.create(tmp_path, "7")


def test_a_disk_lost_during_a_sweep_stops_it(node: Node) -> None:
    _granted(node)
    sweeper, away = node.sweeper(keys=2), node.directory.with_name("away")

    def unmount() -> None:
        if not away.exists():
            node.directory.rename(away)
            shutil.copytree(away, node.directory)  # another disk, with a copy on it

    with pytest.raises(NoStore, match="another file"):
        sweeper.sweep(unmount)
    stopped = list(node.granted.answers)
    sweeper.sweep(lambda: None)

    assert stopped == []
    assert node.granted.outcomes() == {"a": ("done", 5)}
    assert len(list((away / "data/a/_binlog").iterdir())) == 4
    assert node.files("a") == []


def test_creating_a_store_again_keeps_its_entries(tmp_path: Path) -> None:
    SqliteMeta.create(tmp_path, "7").put({b"k": b"v"})

    assert SqliteMeta.create(tmp_path, "7").get(b"k") == b"v"


def test_keys_are_paged_in_byte_order(tmp_path: Path) -> None:
    meta = SqliteMeta.create(tmp_path, "7")
    keys = [b"k", b"k\x00", b"k\x00\x01", b"k\x7f", b"k\xc3\xa9", b"k\xff", b"l"]
    meta.put(dict.fromkeys(reversed(keys), b""))

    assert [[k for k, _ in page] for page in meta.scan(b"k", b"l", 2)] == [keys[0:2], keys[2:4], keys[4:6]]


def test_keys_are_removed_together_or_not_at_all(tmp_path: Path) -> None:
    meta = SqliteMeta.create(tmp_path, "7")
    meta.put({b"a": b"", b"b": b""})
    with closing(sqlite3.connect(tmp_path / "meta.db")) as c, c:
        c.execute("CREATE TRIGGER no BEFORE DELETE ON entry WHEN old.key = 'b' BEGIN SELECT RAISE(ABORT, 'no'); END")

    with pytest.raises(StoreFault, match="no"):
        meta.remove([b"a", b"b"])

    assert (meta.get(b"a"), meta.get(b"b")) == (b"", b"")
