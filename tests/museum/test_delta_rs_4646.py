"""delta-rs #4646: vacuum escaped the names of partitions once more, deleted nothing, and reported the files as deleted.

Sexton deletes the key that the mark names, byte for byte, and removes the record only when that object is gone. What
another collector left behind is an orphan of the next check.
"""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from tests.fault.conftest import Faulty
from tests.integration.check.conftest import Owned, file_keys
from tests.museum.orphans import find_and_delete_orphans
from tests.museum.peers import run_peer
from tests.support.rig import DAY, Rig, listing, put

PARTITIONS = ("a b", "a%20b", "a%2520b", "a+b", "a~b", "2026-01-01 00%3A00%3A00", "2026-01-01 00:00:00")
"""Each means another one to whoever escapes or unescapes a name."""


def mark_half(rig: Rig, vault: str) -> tuple[set[str], set[str]]:
    """Mark the file ``old`` of each partition; return the keys that are to go, and those that are to stay."""
    old, new = ([f"data/part={part}/{name}.parquet" for part in PARTITIONS] for name in ("old", "new"))
    for n, key in enumerate(old[::2]):
        rig.mark("compacted", NewMark(id=f"m{n}", vault=vault, keys=(key,)))
    rig.later(10_801)
    return set(old[::2]), {*old[1::2], *new}


def test_delta_rs_4646_a_directory_loses_only_marked_names(rig: Rig, disk: Path) -> None:
    gone, stays = mark_half(rig, "disk")
    for key in gone | stays:
        put(disk, key)

    report = rig.round()

    assert (report.deleted, set(listing(disk))) == (len(gone), stays)


def test_delta_rs_4646_a_bucket_loses_only_marked_names(cold: Faulty) -> None:
    gone, stays = mark_half(cold.rig, "cold")
    cold.put(*gone, *stays)

    report = cold.rig.round()

    assert (report.deleted, set(cold.listing())) == (len(gone), stays)


@pytest.mark.soak
def test_delta_rs_4646_beside_the_peer(owned: Owned) -> None:
    owned.write_live(*file_keys(200))
    owned.registry.set_key_pattern("shop", r"(data|delta)/.*[.](dat|parquet)")
    table = owned.root / "delta"
    peer = run_peer("delta", table)
    live = {Path(uri).relative_to(owned.root).as_posix() for uri in peer["live"]}
    files = {path.relative_to(owned.root).as_posix() for path in table.rglob("*.parquet")}
    owned.live_rows(*((key, None) for key in live))
    for key in files:
        owned.set_age(owned.root / key, 10 * DAY)

    orphans = find_and_delete_orphans(owned)

    assert len(peer["deleted"]) == 2  # so it says
    assert len(files - live) == 1
    assert orphans == files - live
    assert live <= set(listing(owned.root))
    assert orphans.isdisjoint(listing(owned.root))
