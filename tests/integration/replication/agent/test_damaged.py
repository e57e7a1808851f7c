"""Unreadable keys and values stay with their files, their siblings are removed, and the answer is true."""

import json
import sqlite3
from contextlib import closing

import pytest

from sexton.replication.agent import layout
from tests.integration.replication.agent.node import Node

WRONG = {
    "no JSON": b"\x08\x96\x01",
    "no UTF-8": b'{"version": 2, "tablet_id": "\xff"}',
    "empty": b"",
    "no number of segments": b'{"version":2,"tablet_id":"ta"}',
    "too many segments": b'{"version":2,"tablet_id":"ta","num_segments":10001}',
    "segments below none": b'{"version":2,"tablet_id":"ta","num_segments":-1}',
    "segments in words": b'{"version":2,"tablet_id":"ta","num_segments":"1"}',
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
            (WRONG[what], layout.meta_key("a", 2, "r2").decode()),
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
    node.meta.put({layout.tablet_key("a"): registered})
    node.granted.grant("a", 1)
    node.granted.grant("b", 1)

    node.sweep()

    assert (node.versions("a"), node.versions("b")) == ([1], [])
    assert node.granted.outcomes() == {"a": ("quarantined", -1), "b": ("done", 1)}


def test_a_stored_entry_is_json_that_is_read_back(node: Node) -> None:
    node.tablet("a")
    node.binlog("a", 3, segments=2, creation_time=1_700_000_000)

    its = layout.parse_entry(
        layout.meta_key("a", 3, "r3"), node.meta.get(layout.meta_key("a", 3, "r3")) or b"", "a", "ta"
    )

    assert (its.rowset, its.segments, list(its.files())) == ("r3", 2, ["r3_0.dat", "r3_1.dat"])
    assert json.loads(node.meta.get(layout.tablet_key("a")) or b"") == {"tablet": "ta", "path": "data/a"}
