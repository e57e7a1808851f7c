"""Each key of a node's meta store has one meaning, and no value names a path outside of the data directory."""

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sexton.replication.agent import model
from sexton.replication.agent.model import MAX_SEGMENTS, MAX_VERSION, NOTHING, Malformed
from tests.integration.replication.node_meta import meta_key

ids = st.from_regex(r"[A-Za-z0-9.-]{1,128}", fullmatch=True)
versions = st.integers(0, MAX_VERSION)
UID, ROWSET = "6943f1585fe834b5-e542c2b83a21d0b7", "020000000000000135449d7cd7eadfe672aa0f928fa99593"


def test_keys_are_spelled_as_nodes_spell_them() -> None:
    meta, data = (f"binlog_{kind}_{UID}_00000000000000000069_{ROWSET}".encode() for kind in ("meta", "data"))
    assert model.parse_key(meta) == (UID, 69, ROWSET)
    assert model.BinlogFiles(meta, ROWSET, 1).both_keys() == (meta, data)
    assert model.tablet_key(UID).decode() == f"tablet_{UID}"


@given(ids, versions, ids)
def test_key_parses_to_its_parts(uid: str, version: int, rowset: str) -> None:
    assert model.parse_key(meta_key(uid, version, rowset)) == (uid, version, rowset)


@given(ids, versions, ids, ids, st.integers(NOTHING, MAX_VERSION))
def test_key_is_in_the_range_of_its_tablet_and_version_only(
    uid: str, version: int, rowset: str, other: str, cut: int
) -> None:
    begin, end = model.key_range(other, cut)
    key = meta_key(uid, version, rowset)
    first, behind = model.stray_key_range(other)

    assert (begin <= key < end) == (uid == other and version <= cut)
    assert not first <= key < behind


@given(st.binary(max_size=60).map(lambda b: b"binlog_meta_" + b) | st.binary(max_size=60))
@example(b"binlog_meta_a_09999999999999999999_r")
@example(b"binlog_meta_a_00000000000000000001_r\n")
@example("binlog_meta_a_0000000000000000000\u0661_r".encode())
def test_parsed_key_has_only_one_spelling(key: bytes) -> None:
    try:
        parts = model.parse_key(key)
    except Malformed:
        return
    assert meta_key(*parts) == key


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["version", "tablet_id", "num_segments", "rowset_id_v2", "creation_time", "x"]), inner
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_value_is_an_entry_or_malformed(value: bytes) -> None:
    key = meta_key("a", 1, "r")
    try:
        entry = model.parse_entry(key, value, "a", "1")
    except Malformed as e:
        entry = model.BinlogFiles(key, "r", (e.version or 0) - 1)
    assert (entry.key, entry.rowset) == (key, "r")
    assert 0 <= entry.segments <= MAX_SEGMENTS


@given(st.text(max_size=50) | st.lists(st.sampled_from(["..", ".", "", "a", "b-1", "_x", "a b", "~"])).map("/".join))
@example("a/b\n")
@example("a\0b")
@example("/".join("a" * 17))
def test_a_path_stays_below_the_data_directory(path: str) -> None:
    try:
        _, folders = model.parse_tablet(json.dumps({"tablet": 1, "path": path}).encode())
    except Malformed:
        return
    its = PurePosixPath("/", *folders)
    assert "/".join(folders) == path
    assert len(its.parts) == 1 + len(folders) <= 17
    assert not {"..", "."} & set(its.parts)


def test_entry_of_another_tablet_is_malformed() -> None:
    value = b'{"version":1,"tablet_id":"1","num_segments":1}'

    with pytest.raises(Malformed, match="to tablet ab, not a"):
        model.parse_entry(meta_key("ab", 1, "r"), value, "a", "1")


def test_path_of_plain_names_is_accepted() -> None:
    for path in ("data/0/123/456", "t", "a.b/c_d-1"):
        assert model.parse_tablet(json.dumps({"tablet": 15, "path": path}).encode()) == ("15", path.split("/"))


def test_malformed_uid_or_impossible_key_is_refused() -> None:
    for uid in ("", "a_b", "a/b", "a\n", "é", "x" * 129):
        for refuses in (model.tablet_key, lambda id_: model.key_range(id_, 1)):
            with pytest.raises(Malformed):
                refuses(uid)
    for version, rowset in ((MAX_VERSION + 1, "r"), (1, "a_b"), (1, "")):
        with pytest.raises(Malformed):
            model.parse_key(meta_key("a", version, rowset))
