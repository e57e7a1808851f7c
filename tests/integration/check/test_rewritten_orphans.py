"""An orphan's mark deletes no object that was written again after the check, also with the same content."""

import datetime as dt
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sexton import contract
from sexton.kernel.crash_points import installed
from sexton.marks.kept import by_load
from sexton.marks.model import Reason
from tests.integration.check.conftest import PATTERN, Owned, file_keys, live_view
from tests.integration.storage.versioned_bucket import set_versioning
from tests.servers.s3 import RunningS3
from tests.support.command import run
from tests.support.eventually import eventually
from tests.support.places import Bucket
from tests.support.rig import DAY, put

pytestmark = pytest.mark.slow

UNCHANGED, BEFORE_REPAIR, BEFORE_ROUND, AFTER_CLAIM = KEYS = [f"data/t9/{name}_0.dat" for name in "abcd"]
BODY = b"x" * 10
LIVE = file_keys(400)
"""So many that these orphans need no approval."""


class Orphaned:
    """An owner with four orphans. ``rewrite``: write the same content again, as a task does."""

    def __init__(self, owned: Owned, rewrite: Callable[[str], object], exists: Callable[[str], bool]) -> None:
        self.owned, self.rewrite, self.exists = owned, rewrite, exists


def check_twice(owned: Owned) -> None:
    """Find the orphans in two checks."""
    for seconds in (2 * DAY, DAY + 60):
        owned.check(after=seconds)


def fall_due(owned: Owned) -> None:
    """Let the marks of orphans fall due, with the check that their deletion requires."""
    owned.check(after=3 * DAY + 60)
    owned.later(60)


@pytest.fixture(params=["local", "s3"])
def orphaned(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Orphaned]:
    if request.param == "local":
        owned = Owned(database_url).register(tmp_path / "disk")
        with live_view(owned):
            owned.write_live(*LIVE)
            for key in KEYS:
                owned.write_old(key)
            yield Orphaned(owned, partial(put, owned.root), lambda key: (owned.root / key).exists())
    else:
        server: RunningS3 = request.getfixturevalue("s3_server")
        owned = Owned(database_url, endpoint_url=server.endpoint_url)
        with live_view(owned):
            yield in_bucket(owned, server, request.getfixturevalue("bucket"))
    owned.db.close()


def in_bucket(owned: Owned, server: RunningS3, bucket: str) -> Orphaned:
    s3 = server.client()
    owned.instance()
    vault = owned.s3(bucket)
    owned.registry.set_key_pattern("shop", PATTERN)
    place = Bucket(s3, server.endpoint_url, bucket)
    for key in (*LIVE, *KEYS):
        place.put(key, BODY)
    owned.live_rows(*((key, 10) for key in LIVE), vault="cold")
    first = {seen.key: seen for seen in vault.stat(KEYS)}

    def rewrite(key: str) -> None:
        """Write the same content until the store shows a later write, by more than it rounds."""

        def is_later() -> bool:
            place.put(key, BODY)
            [now] = vault.stat([key])
            assert now.etag == first[key].etag
            since = dt.datetime.fromisoformat(first[key].written)
            return dt.datetime.fromisoformat(now.written) - since >= dt.timedelta(seconds=2)

        eventually("the store shows a later write", is_later)

    return Orphaned(owned, rewrite, lambda key: bool(vault.stat([key])))


def test_k16_orphans_written_again_before_the_delete_are_kept(orphaned: Orphaned) -> None:
    owned = orphaned.owned
    check_twice(owned)
    orphaned.rewrite(BEFORE_REPAIR)
    repaired = owned.repairs.orphans("shop")
    fall_due(owned)
    orphaned.rewrite(BEFORE_ROUND)

    with installed(lambda name: orphaned.rewrite(AFTER_CLAIM) if name == "claim.committed" else None):
        report = owned.round()

    assert (repaired.marked, repaired.kept, owned.repairs.awaits("shop")) == (3, 1, "")
    assert (report.deleted, report.failed) == (1, 1)
    assert [key for key in KEYS if not orphaned.exists(key)] == [UNCHANGED]
    for state in ("MARKED", "CLAIMED"):
        assert owned.count("mark", quarantined_reason=Reason.CHANGED, state=state) == 1


def test_an_orphan_waits_only_for_a_load_that_may_write_it(owned: Owned) -> None:
    waiting, free = "data/t9/a_0.dat", "data/t8/b_0.dat"
    owned.orphaned(waiting, free)
    assert owned.repairs.orphans("shop").marked == 2
    fall_due(owned)
    with owned.db.write() as c:
        contract.prepare(c, "shop", "load-7", ["a"], "disk", ["data/t9/"], DAY)
        contract.prepare(c, "shop", "load-8", ["c"], "disk", ["data/t8/c_"], DAY)
        contract.prepare(c, "shop", "load-9", ["d"], "other", ["data/t8/"], DAY)

    report = owned.round()
    owned.commit("a")  # it takes back the mark: the key names this record

    assert (report.deleted, report.kept) == (1, {by_load("a"): 1})
    assert [(owned.root / key).exists() for key in (waiting, free)] == [True, False]
    assert owned.count("mark", kind="orphan") == 0


def test_status_knows_what_was_repaired(
    database_url: str, s3_server: RunningS3, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes by the last check, whose counts an operator's repair changes at once."""
    owned = Owned(database_url, endpoint_url=s3_server.endpoint_url)
    place = Bucket(s3_server.client(), s3_server.endpoint_url, bucket)
    set_versioning(place, "Enabled")
    with live_view(owned):
        in_bucket(owned, s3_server, bucket)
        place.client.delete_object(Bucket=bucket, Key=LIVE[0])
        check_twice(owned)
        before = run(owned, capsys, "status", "shop").out.partition("\n")[0]
        repaired = owned.repairs.lost("shop"), owned.repairs.orphans("shop")
        after = run(owned, capsys, "status", "shop").out.partition("\n")[0]
        counts = owned.rows("check_run")[-1].open_counts
    owned.db.close()

    assert "shop: LOST: 1 object, confirmed" in before
    assert [(result.shown, result.marked) for result in repaired] == [(1, 0), (0, len(KEYS))]
    assert "LOST" not in after
    assert counts == {}
