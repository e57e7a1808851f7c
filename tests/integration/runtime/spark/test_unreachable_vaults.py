"""A round on Spark stops claiming marks of vaults that executors cannot reach, and loses no audit row."""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.recycle.pipeline import ranges
from sexton.runtime.spark import deleter, deletion
from sexton.runtime.spark.deleter import SparkDeleter, SparkDeletion
from sexton.runtime.spark.deletion import DeleteOrder, PartResult, Work
from sexton.runtime.spark.locations import ConnectionTarget, without_password
from sexton.runtime.spark.session import Sessions
from tests.integration.runtime.spark.conftest import Deleting
from tests.support.kept import kept_texts
from tests.support.rig import DEPLOYMENT, RETENTION, Rig, listing, put


def where(rig: Rig) -> ConnectionTarget:
    return ConnectionTarget(
        deployment=DEPLOYMENT,
        database_url=without_password(rig.url),
        live_database_url=without_password(rig.live_url),
        endpoint_url=rig.endpoint_url,
    )


def due(rig: Rig, root: Path, marks: int, vault: str = "disk") -> None:
    for n in range(marks):
        put(root, f"data/t{n:03}_0.dat")
    rig.mark(
        "dropped", *(NewMark(id=f"{vault}{n:03}", vault=vault, keys=(f"data/t{n:03}_0.dat",)) for n in range(marks))
    )
    rig.later(RETENTION["dropped"] + 1)


@pytest.mark.timeout(120)
def test_a_vault_unreachable_by_executors_is_not_claimed_further(
    rig: Rig, deleting: Deleting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process can use the vault, its executors cannot: whole ranges were claimed, and nothing was deleted."""
    rig.instance()
    root = rig.local(tmp_path / "disk")
    due(rig, root, 60)
    monkeypatch.setattr(ranges, "GROUP_FILES", 10)
    monkeypatch.setattr("sexton.recycle.pipeline.ranges.CHUNK_MARKS", 10)

    def unmounted(_s: Any, _t: Collection[str], order: DeleteOrder) -> list[PartResult]:
        return [PartResult(faults={"disk": "NO_BUCKET"}, logged=True) for _ in order.parts]

    monkeypatch.setattr(deleter, "_run", unmounted)
    deleting(rig)
    report = rig.round()

    assert len(listing(root)) == 60
    assert 0 < report.claimed <= 10 * ranges.GROUPS_AT_ONCE
    assert kept_texts(report) == {"vault disk: NO_BUCKET": 60 - report.claimed}
    assert report.vaults == {"disk": "NO_BUCKET"}
    assert report.faults > 0


def test_a_part_with_a_fault_leaves_the_audit_to_the_worker(
    rig: Rig, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another copy of the part may have deleted what this one could not, and would have been told by nobody."""
    rig.instance()
    root = rig.local(tmp_path / "disk")
    due(rig, root, 3)
    told = []

    class Here(SparkDeletion):
        """Deletes in this process, first on a machine where the disk is not mounted."""

        def wait_for(self, to: int) -> None:
            order = DeleteOrder(work=self._deleter.work, token=self._token, parts=(), excluded_vaults={}, faults={})
            (root / "_sexton/vault.json").rename(tmp_path / "away")
            told.append(deletion._delete(order, 0, to))
            (tmp_path / "away").rename(root / "_sexton/vault.json")
            told.append(deletion._delete(order, 0, to))
            self._sent_to = self._tried_to = to

    deleter_on_spark = SparkDeleter(sessions, Work(where=where(rig), requests=1), rig.stores.outcomes, 1)
    monkeypatch.setattr(deleter, "SparkDeletion", Here)
    rig.recycler = rig.recycler_of(rig.owner, deleter_on_spark)
    rig.round()

    one = [t for t in told if t.faults]
    assert one == [PartResult(faults={"disk": "NO_MARKER"}, logged=False)]
    assert told[told.index(one[0]) + 1] == PartResult(faults={}, logged=True)
    assert not listing(root)


@pytest.mark.timeout(120)
def test_an_audit_folder_is_not_written_on_other_machines(
    rig: Rig, sessions: Sessions, deleting: Deleting, tmp_path: Path
) -> None:
    away = SimpleNamespace(local=False, cores=None, of=sessions.of)
    for audit_url in ("file:///audits", "/audits"):
        work = Work(
            where=where(rig).model_copy(update={"database_url": "postgresql://h/d"}), requests=1, audit_url=audit_url
        )
        assert not SparkDeleter(away, work, rig.stores.outcomes, 4).work.audits  # type: ignore[arg-type]
        assert SparkDeleter(sessions, work, rig.stores.outcomes, 4).work.audits
    assert SparkDeleter(
        away, work.model_copy(update={"audit_url": "s3://bucket/a"}), rig.stores.outcomes, 4
    ).work.audits  # type: ignore[arg-type]

    rig.instance()
    due(rig, rig.local(tmp_path / "disk"), 5)
    deleting(rig)._ranges._parts.deleter.work = Work(where=where(rig), requests=1, audits=False)  # type: ignore[attr-defined]
    report = rig.round()

    assert report.deleted == 5
    assert len(list((tmp_path / "disk/_sexton/audit").rglob("*.parquet"))) == 1  # told once, by this process
