"""A file that the store refuses repeatedly counts as failed, and does not block its neighbours."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.model import MAX_FAILURES, Reason
from sexton.recycle.pacing import policy
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult, VaultSpec
from sexton.storage.port import Vault
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import new_database
from tests.support.rig import GRACE, Rig, listing

TRIES, ROUNDS = 3, 2
WHY = "InternalError: We encountered an internal error. Please try again."


class Choosy(LocalVault):
    """A directory that fails at some keys, whatever comes with them, or (not ``alone``) is too busy for them."""

    def __init__(self, spec: VaultSpec, refused: Sequence[str]) -> None:
        super().__init__(spec)
        self.refused, self.alone = list(refused), True
        self.asked: list[list[str]] = []

    def delete(self, keys: Sequence[str], etags: Sequence[str] = (), until: float | None = None) -> Sequence[KeyResult]:
        self.asked.append(list(keys))
        taken = {r.key: r for r in super().delete([key for key in keys if key not in self.refused])}
        return [taken.get(key) or self._refusal(key) for key in keys]

    def _refusal(self, key: str) -> KeyResult:
        return KeyResult(key=key, outcome=KeyOutcome.THROTTLED, reason=WHY, alone=self.alone)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.recycle.pacing.model.TRIES", TRIES)
    monkeypatch.setattr("sexton.recycle.pipeline.sql.settlement.MAX_FAILURES", ROUNDS)
    monkeypatch.setattr(policy, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(policy, "LAST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(policy, "GIVE_UP_SECONDS", 600.0)


def choosy(rig: Rig, monkeypatch: pytest.MonkeyPatch, *refused: str) -> Choosy:
    """Put a choosy store in the place of the vault ``disk``, which is still proved at every look."""
    get, disk = rig.vaults.get, Choosy(rig.registry.vault("shop", "disk"), refused)

    def proved(instance: str, name: str) -> Vault:
        get(instance, name)
        return disk

    monkeypatch.setattr(rig.vaults, "get", proved)
    return disk


def test_a_key_refused_alone_fails_until_its_mark_is_quarantined(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drop_files(root, "t1", "a.dat", "b.dat", "c.dat")
    rig.drop_files(root, "t2", "d.dat")
    rig.later(10_801)
    disk = choosy(rig, monkeypatch, "b.dat")

    report = rig.round()

    assert (report.removed, report.deleted, report.failed, report.waiting) == (1, 3, 1, 1)
    assert report.vaults == {"disk": "normal"}
    assert disk.asked == [["a.dat", "b.dat", "c.dat", "d.dat"], *[["b.dat"]] * (TRIES - 1)]
    assert set(listing(root)) == {"b.dat"}
    row = rig.row("dropped", "t1")
    assert (row.state, row.failures, row.last_error) == ("CLAIMED", 1, WHY)
    assert (rig.count_files(outcome="failed"), rig.count_files(outcome="deleted")) == (1, 2)
    for n in range(1, ROUNDS):
        again = rig.round()
        assert (again.failed, again.vaults, rig.row("dropped", "t1").failures) == (1, {"disk": "normal"}, n + 1)
    row = rig.row("dropped", "t1")
    assert (row.state, row.quarantined_reason) == ("CLAIMED", "DELETE_FAILED")
    disk.refused.clear()
    assert rig.round(after=86_401).removed == 1
    assert listing(root) == {}


def test_a_store_that_makes_progress_fails_no_key(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{n}.dat" for n in range(3 * TRIES)]
    rig.drop_files(rig.local(tmp_path / "v"), "t1", *names)
    rig.later(10_801)
    disk = choosy(rig, monkeypatch, *names[1:])
    delete = disk.delete

    def one_more(keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        results = delete(keys, etags)
        disk.refused = disk.refused[1:]
        return results

    monkeypatch.setattr(disk, "delete", one_more)

    report = rig.round()

    assert (report.removed, report.failed) == (1, 0)
    assert len(disk.asked) == len(names)


def test_a_storm_in_the_middle_of_a_page_fails_no_key(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.drop_files(root, "t1", "a.dat", "b.dat", "c.dat")
    rig.drop_files(root, "t2", "d.dat")
    rig.later(10_801)
    disk = choosy(rig, monkeypatch, "b.dat", "c.dat", "d.dat")
    disk.alone, delete = False, disk.delete

    def storm(keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        if max(Counter(map(tuple, disk.asked)).values(), default=0) >= TRIES - 1:  # in whatever order they are asked
            disk.refused.clear()
        return delete(keys, etags)

    monkeypatch.setattr(disk, "delete", storm)

    report = rig.round()

    assert (report.removed, report.failed) == (2, 0)
    assert listing(root) == {}


LISTED = (
    "<ListBucketResult><IsTruncated>false</IsTruncated>"
    "<Contents><Key>wh/d/p/../../secret</Key><Size>1</Size></Contents>"
    "<Contents><Key>wh/d/p/1</Key><Size>1</Size></Contents></ListBucketResult>"
)


@pytest.fixture
def s3_rig(tmp_path: Path, proxy: FaultProxy, bucket: str) -> Iterator[Rig]:
    rig = Rig(new_database(), endpoint_url=proxy.url).instance()
    rig.s3(bucket, prefix="wh/")
    yield rig
    rig.db.close()


@pytest.mark.slow
def test_retry_lists_a_prefix_with_an_impossible_key_again(s3_rig: Rig, proxy: FaultProxy, bucket: str) -> None:
    for key in ("wh/d/p/1", "wh/d/p/2", "wh/secret"):
        proxy.client.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3_rig.mark("dropped", NewMark(id="p", vault="cold", prefix="d/p/"))
    s3_rig.later(10_801)
    proxy.answer_next("ListObjectsV2", LISTED.encode())
    for _ in range(MAX_FAILURES):
        s3_rig.round()
    assert s3_rig.row("dropped", "p").quarantined_reason == Reason.DELETE_FAILED

    QuarantineStore(s3_rig.db).retry("shop")
    s3_rig.round(after=GRACE + 1)

    listed = proxy.client.list_objects_v2(Bucket=bucket, Prefix="wh/")["Contents"]
    assert [entry["Key"] for entry in listed if not entry["Key"].startswith("wh/_sexton/")] == ["wh/secret"]
    s3_rig.round(after=GRACE + 1)  # it found objects: it looks once more
    assert s3_rig.count("mark") == 0
    assert s3_rig.count("mark_history", objects=2) == 1
