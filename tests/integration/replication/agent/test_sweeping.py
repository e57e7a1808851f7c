"""A sweep removes exactly the binlogs up to the granted version, and acknowledges what it removed."""

import sqlite3
import threading
from contextlib import closing

import pytest

from sexton.replication.agent.model import GrantedCut, SweepOrder
from sexton.replication.errors import OtherBackend, StoreBusy
from tests.integration.replication.agent.node import BYTES, Node


@pytest.mark.parametrize("keys", [1, 7, 1_000])
def test_b09_exactly_the_versions_up_to_the_cut_are_removed(node: Node, keys: int) -> None:
    for uid in ("a", "ab", "b"):
        node.tablet(uid)
        for version in range(71):
            node.binlog(uid, version)
    node.granted.grant("a", 69)

    swept = node.sweep(keys)

    assert (node.versions("a"), node.files("a")) == ([70], ["r70_0.dat"])
    assert len(node.versions("ab")) == len(node.files("ab")) == len(node.versions("b")) == 71
    assert node.granted.outcomes() == {"a": ("done", 69)}
    assert (swept.tablets, swept.files, swept.keys, swept.bytes, swept.pages) == (1, 70, 140, 70 * BYTES, 1)


def test_b08_each_tablet_is_swept_once_to_its_highest_version(node: Node) -> None:
    for uid in ("a", "b"):
        node.tablet(uid)
        for version in (1, 2, 3):
            node.binlog(uid, version)
    node.granted.grant("a", 2)
    node.granted.grant("b", 1)
    node.granted.more = [GrantedCut(uid="a", tablet="ta", version=1)]

    node.sweep()

    assert (node.versions("a"), node.versions("b")) == ([3], [2, 3])
    assert [(its.uid, its.version) for its in node.granted.answers] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("keys", [2, 1_000])
def test_b10_a_file_that_stays_keeps_its_keys(node: Node, keys: int) -> None:
    folder = node.tablet("a")
    for version in range(5):
        node.binlog("a", version)
    (folder / "r1_0.dat").unlink()
    (folder / "r1_0.dat").mkdir()  # no unlink removes it
    (folder / "r3_0.dat").unlink()  # that one is missing is no failure
    node.granted.grant("a", 4)

    failed = node.sweep(keys)
    kept, told = node.versions("a"), node.granted.answers[-1]
    (folder / "r1_0.dat").rmdir()
    done = node.sweep(keys)

    assert (kept, failed.keys, failed.failed) == ([0, 1, 2, 3, 4], 0, 1)
    assert (told.outcome, told.version) == ("failed", -1)
    assert "data/a/_binlog/r1_0.dat" in told.detail
    assert (node.versions("a"), node.files("a")) == ([], [])
    assert (node.granted.outcomes(), done.failed) == ({"a": ("done", 4)}, 0)


def test_b10_pages_before_a_failure_are_acknowledged(node: Node) -> None:
    folder = node.tablet("a")
    for version in range(10, 16):
        node.binlog("a", version)
    (folder / "r13_0.dat").unlink()
    (folder / "r13_0.dat").mkdir()
    node.granted.grant("a", 20)

    node.sweep(keys=2)

    assert node.versions("a") == [12, 13, 14, 15]
    assert node.granted.outcomes() == {"a": ("failed", 10)}  # of 11 another page might hold another rowset


def test_b12_an_unknown_tablet_stops_no_other(node: Node) -> None:
    uids = [f"u{n}" for n in range(10)]
    for uid in uids:
        node.granted.grant(uid, 5)
        if uid != "u4":
            node.tablet(uid)
            node.binlog(uid, 5)

    swept = node.sweep()

    assert [node.versions(uid) for uid in uids] == [[]] * 10
    assert node.granted.outcomes() == {uid: ("unknown", -1) if uid == "u4" else ("done", 5) for uid in uids}
    assert (swept.tablets, swept.unknown, swept.failed, swept.quarantined) == (10, 1, 0, 0)


def test_an_old_entry_has_its_rowset_in_the_key(node: Node) -> None:
    node.tablet("a")
    node.binlog("a", 1, segments=2, rowset="020000000000000135449d7cd7eadfe672aa0f928fa99593", rowset_id_v2=None)
    node.granted.grant("a", 1)

    node.sweep()

    assert (node.files("a"), node.versions("a")) == ([], [])


def test_rowsets_of_one_version_are_acknowledged_together(node: Node) -> None:
    folder = node.tablet("a")
    for rowset in ("x", "y"):
        node.binlog("a", 5, rowset=rowset)
    (folder / "y_0.dat").unlink()
    (folder / "y_0.dat").mkdir()
    node.granted.grant("a", 9)

    node.sweep(keys=1)

    assert node.granted.outcomes() == {"a": ("failed", 4)}


def test_more_files_than_a_batch_are_removed(node: Node) -> None:
    node.tablet("a")
    node.binlog("a", 1, segments=2_500)
    node.granted.grant("a", 1)

    assert node.sweep().files == 2_500
    assert node.files("a") == []


@pytest.mark.parametrize("what", ["_binlog", "tablet", "file"])
def test_a_link_is_not_followed(node: Node, what: str) -> None:
    folder, other = node.tablet("a"), node.tablet("b")
    for uid in ("a", "b"):
        node.binlog(uid, 1)
    (folder / "r1_0.dat").unlink()
    if what == "file":
        (folder / "r1_0.dat").symlink_to(other / "r1_0.dat")
    elif what == "_binlog":
        folder.rmdir()
        folder.symlink_to(other)
    else:
        folder.rmdir()
        folder.parent.rmdir()
        folder.parent.symlink_to(other.parent)
    node.granted.grant("a", 1)

    node.sweep()

    assert (node.files("b"), node.versions("a")) == (["r1_0.dat"], [1])
    assert node.granted.outcomes() == {"a": ("failed", -1)}


def test_a_missing_folder_is_not_an_empty_one(node: Node) -> None:
    folder = node.tablet("a")
    node.binlog("a", 1)
    folder.parent.rename(node.directory / "unmounted")
    node.granted.grant("a", 1)

    node.sweep()
    failed, kept = node.granted.outcomes(), node.versions("a")
    (node.directory / "unmounted").rename(folder.parent)
    node.sweep()

    assert (failed, kept) == ({"a": ("failed", -1)}, [1])
    assert (node.granted.outcomes(), node.files("a")) == ({"a": ("done", 1)}, [])


def test_only_the_tablets_of_an_order_are_swept(node: Node) -> None:
    node.granted = type(node.granted)(page=2)
    for uid in "abcdef":
        node.tablet(uid)
        node.binlog(uid, 1)
        node.granted.grant(uid, 1)

    swept = node.sweep(order=SweepOrder(after="a", until="d"))

    assert [uid for uid in "abcdef" if not node.versions(uid)] == ["b", "c", "d"]
    assert (swept.tablets, swept.pages) == (3, 2)


def test_an_order_of_another_instance_is_refused(node: Node) -> None:
    sweeper = node.sweeper(instance="shop")

    with pytest.raises(OtherBackend, match="other"):
        sweeper.sweep(lambda: None, SweepOrder(instance="other"))


def test_a_long_write_of_the_node_is_reported_after_a_wait(node: Node) -> None:
    node.tablet("a")
    node.binlog("a", 1)
    node.granted.grant("a", 1)

    with closing(sqlite3.connect(node.directory / "meta.db", isolation_level=None)) as writing:
        writing.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="open"):
            node.sweep()
        writing.execute("ROLLBACK")
    node.sweep()

    assert node.granted.outcomes() == {"a": ("done", 1)}


def test_a_node_writes_binlogs_during_a_sweep(node: Node) -> None:
    node.tablet("a")
    for version in range(300):
        node.binlog("a", version)
    node.granted.grant("a", 299)

    def write() -> None:
        for version in range(300, 400):
            node.binlog("a", version)

    writer = threading.Thread(target=write)
    writer.start()
    node.sweeper(keys=10, busy_seconds=30).sweep(lambda: None)
    writer.join()

    assert node.versions("a") == list(range(300, 400))
    assert len(node.files("a")) == 100
