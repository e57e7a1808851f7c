"""iceberg-python #2604: an expiry removed snapshots from the metadata, and left the files that only they had.

In Sexton the transaction that forgets a file marks it. A file that was forgotten without a mark is an orphan of the
next check, and is shown until an operator confirms it.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from sexton.contract import NewMark
from tests.integration.check.conftest import Owned, file_keys
from tests.museum.orphans import find_and_delete_orphans
from tests.museum.peers import run_peer
from tests.support.rig import DAY, listing


@pytest.mark.slow
def test_iceberg_python_2604_what_an_expiry_forgets_is_found(owned: Owned) -> None:
    kept, marked, forgotten = file_keys(200), "data/t2/marked_0.dat", "data/t2/forgotten_0.dat"
    owned.write_live(*kept, marked, forgotten)
    owned.forget(marked, forgotten)
    owned.mark("compacted", NewMark(id="marked", vault="disk", keys=(marked,)))
    owned.later(10_801)
    report = owned.round()
    left = set(listing(owned.root))

    orphans = find_and_delete_orphans(owned)

    assert (report.deleted, left) == (1, {*kept, forgotten})
    assert orphans == {forgotten}
    assert set(listing(owned.root)) == set(kept)


@pytest.mark.soak
def test_iceberg_python_2604_beside_the_peer(owned: Owned) -> None:
    owned.write_live(*file_keys(200))
    owned.registry.set_key_pattern("shop", r"data/.*[.]dat|ice/.*[.]parquet")
    warehouse = owned.root / "ice"
    warehouse.mkdir()
    peer = run_peer("iceberg", warehouse)
    live = {Path(unquote(urlsplit(uri).path)).relative_to(owned.root).as_posix() for uri in peer["live"]}
    files = {path.relative_to(owned.root).as_posix() for path in warehouse.rglob("*.parquet")}
    owned.live_rows(*((key, None) for key in live))
    for path in warehouse.rglob("*"):
        owned.set_age(path, 10 * DAY)

    orphans = find_and_delete_orphans(owned)

    assert (peer["snapshots"], len(files), len(live)) == (1, 3, 1)
    assert orphans == files - live
    assert {path.relative_to(owned.root).as_posix() for path in warehouse.rglob("*.parquet")} == live
    assert run_peer("iceberg", warehouse)["rows"] == peer["rows"] == {"a": [1, 2]}
