"""An orphan's mark deletes no object that was written again after the check, also with the same content."""

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sexton import contract
from sexton.kernel.crash_points import installed
from sexton.marks.keepers import by_load
from sexton.marks.model import Reason
from tests.integration.check.conftest import PATTERN, Owned, file_keys, live_view
from tests.servers.s3 import RunningS3
from tests.support.eventually import eventually
from tests.support.rig import DAY, put

pytestmark = pytest.mark.slow

KEY = "data/t9/a_0.dat"
BODY = b"x" * 10


class Orphaned:
    """An owner with an orphan that two checks have found. ``rewrite``: write the same content again, as a task does."""

    def __init__(self, owned: Owned, rewrite: Callable[[], None], exists: Callable[[], bool]) -> None:
        self.owned, self.rewrite, self.exists = owned, rewrite, exists

    def check_twice(self) -> "Orphaned":
        """Find the orphan in two checks."""
        self.owned.later(2 * DAY)
        self.owned.check()
        self.owned.later(DAY + 60)
        self.owned.check()
        return self

    def repair(self) -> "Orphaned":
        """Mark the orphan, and let its mark fall due, with the check that its deletion requires."""
        assert self.owned.repairs.orphans("shop").marked == 1
        self.owned.later(3 * DAY + 60)
        self.owned.check()
        self.owned.later(60)
        return self


def in_directory(owned: Owned) -> Orphaned:
    owned.write_live(*file_keys(100))
    path = owned.write_old(KEY)

    def rewrite() -> None:
        put(owned.root, KEY)

    return Orphaned(owned, rewrite, path.exists).check_twice()


@pytest.fixture(params=["local", "s3"])
def orphaned(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Orphaned]:
    if request.param == "local":
        owned = Owned(database_url).register(tmp_path / "disk")
        with live_view(owned):
            yield in_directory(owned)
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
    keys = file_keys(100)
    for key in (*keys, KEY):
        s3.put_object(Bucket=bucket, Key=key, Body=BODY)
    owned.live_rows(*((key, 10) for key in keys), vault="cold")
    [first] = vault.stat([KEY])
    since = dt.datetime.fromisoformat(first.written)

    def rewrite() -> None:
        """Write the same content until the store shows a later write, by more than it rounds."""

        def is_later() -> bool:
            s3.put_object(Bucket=bucket, Key=KEY, Body=BODY)
            [now] = vault.stat([KEY])
            assert now.etag == first.etag
            return dt.datetime.fromisoformat(now.written) - since >= dt.timedelta(seconds=2)

        eventually("the store shows a later write", is_later)

    return Orphaned(owned, rewrite, lambda: bool(vault.stat([KEY]))).check_twice()


def test_an_unchanged_orphan_is_deleted(orphaned: Orphaned) -> None:
    orphaned.repair()

    report = orphaned.owned.round()

    assert (report.deleted, orphaned.exists()) == (1, False)


def test_an_orphan_written_again_is_not_marked(orphaned: Orphaned) -> None:
    orphaned.rewrite()

    repaired = orphaned.owned.repairs.orphans("shop")

    assert (repaired.marked, repaired.kept) == (0, 1)


def test_k16_an_orphan_written_again_before_the_round_is_kept(orphaned: Orphaned) -> None:
    orphaned.repair()
    orphaned.rewrite()

    report = orphaned.owned.round()

    assert (report.deleted, orphaned.exists()) == (0, True)
    assert orphaned.owned.count("mark", quarantined_reason=Reason.CHANGED, state="MARKED") == 1


def test_an_orphan_written_again_after_its_claim_is_kept(orphaned: Orphaned) -> None:
    orphaned.repair()

    with installed(lambda name: orphaned.rewrite() if name == "claim.committed" else None):
        report = orphaned.owned.round()

    assert (report.deleted, report.failed, orphaned.exists()) == (0, 1, True)
    assert orphaned.owned.count("mark", quarantined_reason=Reason.CHANGED, state="CLAIMED") == 1


def test_an_orphan_waits_for_a_load_that_may_write_it(owned: Owned) -> None:
    orphaned = in_directory(owned).repair()
    with owned.db.write() as c:
        contract.prepare(c, "shop", "load-7", ["a"], "disk", ["data/t9/"], DAY)

    waits = owned.round()
    with owned.db.write() as c:
        contract.commit(c, "shop", ["a"])  # it takes back the mark: the key names this record

    assert waits.kept == {by_load("a"): 1}
    assert (orphaned.exists(), owned.count("mark")) == (True, 0)


def test_an_orphan_beside_an_announced_prefix_waits_for_no_load(owned: Owned) -> None:
    in_directory(owned).repair()
    with owned.db.write() as c:
        contract.prepare(c, "shop", "load-7", ["b"], "disk", ["data/t9/b_"], DAY)
        contract.prepare(c, "shop", "load-8", ["c"], "other", ["data/t9/"], DAY)

    assert owned.round().deleted == 1
