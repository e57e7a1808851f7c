"""A sweep finishes after a crash, keeps what it cannot read, and never works in a missing or foreign data directory."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.kernel.crash_points import installed
from sexton.replication.agent import model
from sexton.replication.errors import NoStore, StoreFault
from tests.integration.replication.agent.node import CutSource, Node
from tests.integration.replication.node_meta import NodeMeta, meta_key
from tests.support.crashes import OF_BACKEND, Crash, crash_at

WRONG = {
    "no JSON": b"\x08\x96\x01",
    "no UTF-8": b'{"version": 2, "tablet_id": "\xff"}',
    "empty": b"",
    "no number of segments": b'{"version":2,"tablet_id":"ta"}',
    "too many segments": b'{"version":2,"tablet_id":"ta","num_segments":10001}',
    "segments below none": b'{"version":2,"tablet_id":"ta","num_segments":-1}',
    "segments in words": b'{"version":2,"tablet_id":"ta","num_segments":"1"}',
    "a time in words": b'{"version":2,"tablet_id":"ta","num_segments":1,"creation_time":"soon"}',
    "another version": b'{"version":9,"tablet_id":"ta","num_segments":1}',
    "another tablet": b'{"version":2,"tablet_id":"tb","num_segments":1}',
    "another rowset": b'{"version":2,"tablet_id":"ta","num_segments":1,"rowset_id_v2":"r4"}',
    "a rowset that leads out": b'{"version":2,"tablet_id":"ta","num_segments":1,"rowset_id_v2":"../../b/_binlog/r2"}',
    "deep": b"[" * 60_000,
    "long": b'{"version":2,"tablet_id":"ta","num_segments":1,"more":"' + b"x" * 70_000 + b'"}',
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("keys", [1, 1_000])
def test_b27_one_damaged_entry_stays_without_its_siblings(node: Node, what: str, keys: int) -> None:
    node.tablet("a")
    for version in (1, 2, 3, 4):
        node.binlog("a", version)
    with closing(sqlite3.connect(node.directory / "meta.db")) as c, c:
        c.execute(
            "UPDATE entry SET value = CAST(? AS TEXT) WHERE key = ?",
            (WRONG[what], meta_key("a", 2, "r2").decode()),
        )
    node.granted.grant("a", 3)

    swept = node.sweep(keys)

    assert (node.versions("a"), node.files("a")) == ([2, 4], ["r2_0.dat", "r4_0.dat"])
    assert node.granted.outcomes() == {"a": ("quarantined", 1)}
    assert "binlog_meta_a_00000000000000000002_r2" in node.granted.answers[-1].detail
    assert (swept.quarantined, swept.failed) == (1, 0)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (b"binlog_meta_a_00000000000000000002_r/2", 1),
        (b"binlog_meta_a_00000000000000000002_r_2", 1),
        (b"binlog_meta_a_00000000000000000002_\xff\x00", 1),
        (b"binlog_meta_a_000000000000000000002_r2", -1),
        (b"binlog_meta_a_2_r2", -1),
        (b"binlog_meta_a_nothing", -1),
        (b"binlog_meta_a_", -1),
    ],
)
def test_b27_an_unreadable_key_stays_and_the_answer_is_true(node: Node, key: bytes, version: int) -> None:
    node.tablet("a")
    for its in (1, 3):
        node.binlog("a", its)
    node.meta.put({key: b'{"version":2,"tablet_id":"ta","num_segments":1}'})
    node.granted.grant("a", 3)

    node.sweep(keys=1)

    assert node.files("a") == []
    assert node.meta.get(key) is not None
    assert node.granted.outcomes() == {"a": ("quarantined", version)}


@pytest.mark.parametrize(
    "registered",
    [
        b"",
        b"{}",
        b'{"tablet":"ta","path":"../b"}',
        b'{"tablet":"ta","path":"/data/b"}',
        b'{"tablet":"tx","path":"data/a"}',
    ],
)
def test_a_tablet_with_a_wrong_registration_is_left_alone(node: Node, registered: bytes) -> None:
    for uid in ("a", "b"):
        node.tablet(uid)
        node.binlog(uid, 1)
    node.meta.put({model.tablet_key("a"): registered})
    node.granted.grant("a", 1)
    node.granted.grant("b", 1)

    node.sweep()

    assert (node.versions("a"), node.versions("b")) == ([1], [])
    assert node.granted.outcomes() == {"a": ("quarantined", -1), "b": ("done", 1)}


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("point", sorted(OF_BACKEND))
def test_b11_the_next_sweep_finishes_after_any_crash(node: Node, point: str, times: int) -> None:
    node.granted = CutSource(page=1)
    for uid in "abc":
        node.tablet(uid)
        for version in range(6):
            node.binlog(uid, version, segments=2)
        node.granted.grant(uid, 3)

    with installed(crash_at(point, times)), pytest.raises(Crash):
        node.sweep(keys=3)
    for uid in "abc":  # files before keys: no file is ever left that no key names
        assert {name.split("_")[0] for name in node.files(uid)} <= {f"r{version}" for version in node.versions(uid)}
        assert {4, 5} <= set(node.versions(uid))
    node.sweep(keys=3)

    assert [node.versions(uid) for uid in "abc"] == [[4, 5]] * 3
    assert [node.files(uid) for uid in "abc"] == [["r4_0.dat", "r4_1.dat", "r5_0.dat", "r5_1.dat"]] * 3
    assert node.granted.outcomes() == dict.fromkeys("abc", ("done", 3))
    assert node.granted.cuts == {}


@pytest.mark.parametrize("beats", range(1, 12))
def test_b11_the_next_sweep_finishes_a_crash_between_files(
    node: Node, beats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.replication.agent.sweeping.PAGE_FILES", 1)
    node.tablet("a")
    for version in range(5):
        node.binlog("a", version, segments=2)
    node.granted.grant("a", 3)
    left = beats

    def heartbeat() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Crash

    with pytest.raises(Crash):
        node.sweeper(keys=2).sweep(heartbeat)
    assert set(node.versions("a")) >= {4}
    node.sweep(keys=2)

    assert (node.versions("a"), node.files("a")) == ([4], ["r4_0.dat", "r4_1.dat"])


tablets = st.dictionaries(
    st.sampled_from(["a", "a-", "a.b", "A", "1", "12", "ab"]),
    st.tuples(
        st.dictionaries(st.integers(0, 25), st.tuples(st.integers(0, 3), st.sampled_from("     -m"))),
        st.integers(0, 25),
    ),
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(tablets, st.integers(1, 8), st.integers(0, 2**32), st.sampled_from(["", *sorted(OF_BACKEND)]))
def test_a_sweep_removes_all_up_to_the_cut_and_nothing_above(
    tmp_path_factory: pytest.TempPathFactory, world: dict, keys: int, seed: int, point: str
) -> None:
    """Of each version: its segments, and whether it is damaged (``m``), or its files are gone already (``-``)."""
    place = tmp_path_factory.mktemp("node")
    node, chance = Node(place), random.Random(seed)
    node.granted = CutSource(page=chance.randint(1, 3))
    for uid, (binlogs, cut) in world.items():
        folder = node.tablet(uid)
        for version, (segments, state) in binlogs.items():
            node.binlog(uid, version, segments, **({"num_segments": None} if state == "m" else {}))
            if state == "-":
                for n in range(segments):
                    (folder / f"r{version}_{n}.dat").unlink()
        node.granted.grant(uid, cut)

    try:
        with installed(crash_at(point, chance.randint(1, 4))):
            node.sweep(keys)
    except Crash:
        node.sweep(keys)

    for uid, (binlogs, cut) in world.items():
        damaged = [v for v, (_, state) in binlogs.items() if v <= cut and state == "m"]
        stay = sorted(v for v, (_, state) in binlogs.items() if v > cut or state == "m")
        files = [f"r{v}_{n}.dat" for v in stay for n in range(binlogs[v][0]) if binlogs[v][1] != "-"]
        assert (node.versions(uid), node.files(uid)) == (stay, sorted(files))
        told = ("quarantined", min(damaged) - 1) if damaged else ("done", cut)
        assert node.granted.outcomes()[uid] == told
    shutil.rmtree(place)


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
        NodeMeta.create(node.directory, "7")
        with closing(sqlite3.connect(node.directory / "meta.db")) as c, c:
            c.execute("DELETE FROM entry")

    with pytest.raises(NoStore, match="mounted" if what == "no directory" else None):
        node.sweep()

    assert node.granted.answers == []
    assert what == "no id" or not (node.directory / "meta.db-wal").exists()
    assert what in ("an empty file", "no SQLite", "no id") or not (node.directory / "meta.db").exists()


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


def test_keys_are_paged_in_byte_order(tmp_path: Path) -> None:
    meta = NodeMeta.create(tmp_path, "7")
    keys = [b"k", b"k\x00", b"k\x00\x01", b"k\x7f", b"k\xc3\xa9", b"k\xff", b"l"]
    meta.put(dict.fromkeys(reversed(keys), b""))

    assert [[k for k, _ in page] for page in meta.scan(b"k", b"l", 2)] == [keys[0:2], keys[2:4], keys[4:6]]


def test_keys_are_removed_together_or_not_at_all(tmp_path: Path) -> None:
    meta = NodeMeta.create(tmp_path, "7")
    meta.put({b"a": b"", b"b": b""})
    with closing(sqlite3.connect(tmp_path / "meta.db")) as c, c:
        c.execute("CREATE TRIGGER no BEFORE DELETE ON entry WHEN old.key = 'b' BEGIN SELECT RAISE(ABORT, 'no'); END")

    with pytest.raises(StoreFault, match="no"):
        meta.remove([b"a", b"b"])

    assert (meta.get(b"a"), meta.get(b"b")) == (b"", b"")
