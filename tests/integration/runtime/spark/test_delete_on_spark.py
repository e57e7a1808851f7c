"""A round on Spark deletes exactly what a round in one process deletes."""

from pathlib import Path

import pytest
from sqlalchemy import update

from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from sexton.marks.model import Reason
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.pipeline import resolve
from sexton.storage.local.vault import LocalVault
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.recycle.pipeline.attempts import range_order
from tests.integration.recycle.pipeline.refusing import refusing
from tests.integration.runtime.spark.conftest import Deleting, audit_locations
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DAY, RETENTION, Rig, listing, put


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_round_on_spark_deletes_exactly_the_due_objects(rig: Rig, deleting: Deleting, tmp_path: Path) -> None:
    rig.instance()
    root, other = rig.local(tmp_path / "disk"), rig.local(tmp_path / "other", "other")
    due = [f"data/t{n % 7}/r{n}_0.dat" for n in range(60)]
    for key in (*due, "data/t1/live_0.dat", "data/p/a.dat", "data/p/in/b.dat"):
        put(root, key)
    put(other, "data/o_0.dat")
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=(key,)) for n, key in enumerate(due)))
    rig.mark(
        "dropped",
        NewMark(id="p", vault="disk", prefix="data/p/"),
        NewMark(id="o", vault="other", keys=("data/o_0.dat",)),
    )
    rig.mark("dropped", NewMark(id="gone", vault="disk", keys=("data/none_0.dat",)))
    rig.later(RETENTION["dropped"] + 1)
    deleting(rig)
    report = rig.round()

    assert (report.claimed, report.removed, report.deleted, report.absent, report.failed) == (63, 62, 63, 1, 0)
    assert set(listing(root)) == {"data/t1/live_0.dat"}
    assert not listing(other)
    audit_rows = AuditReader(rig.db, audit_locations(rig)).rows(report.round)
    assert {r.key: r.outcome for r in audit_rows} == {
        **dict.fromkeys((*due, "data/p/a.dat", "data/p/in/b.dat", "data/o_0.dat"), "deleted"),
        "data/none_0.dat": "absent",
    }


@pytest.mark.timeout(300)
def test_a_take_over_on_spark_passes_a_damaged_list(
    rig: Rig, deleting: Deleting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.instance()
    root, keys, t = rig.local(tmp_path / "v"), ("a", "b", "c"), rig.db.t.file_list
    monkeypatch.setattr(resolve, "CHUNK_FILES", 1)  # a chunk, and so a list, for each mark
    for key in keys:
        put(root, key)
        rig.mark("dropped", NewMark(id=key, vault="disk", keys=(key,)))
    rig.later(RETENTION["dropped"] + 1)
    order = range_order(rig)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing(*keys))
        with installed(crash_at("claim.committed", 3)), pytest.raises(Crash):
            rig.recycler.recycle(order, 1, lambda: None)
    with rig.db.write() as c:
        c.execute(update(t).where(t.c.first_key == keys[1]).values(results=b"\x00"))
    deleting(rig)

    rig.recycler.recycle(order, 2, lambda: None)

    assert (listing(root).keys(), rig.count("mark")) == ({keys[1]}, 1)
    assert [row.key for row in AuditReader(rig.db, audit_locations(rig)).rows(order.round)] == [keys[0], keys[2]]


@pytest.mark.timeout(300)
def test_spark_keeps_an_orphan_written_again_after_its_claim(owned: Owned, deleting: Deleting) -> None:
    keys = ["data/t9/a_0.dat", "data/t9/b_0.dat"]
    owned.write_live(*file_keys(200))
    for key in keys:
        owned.write_old(key)
    for seconds in (0, DAY + 60):
        owned.later(seconds)
        owned.check()
    owned.repairs.orphans("shop")
    owned.later(3 * DAY + 60)
    owned.check()
    owned.later(60)
    deleting(owned)

    def rewrite(point: str) -> None:
        if point == "claim.committed":
            put(owned.root, keys[0])

    with installed(rewrite):
        report = owned.round()

    assert (report.deleted, report.failed) == (1, 1)
    assert [(owned.root / key).exists() for key in keys] == [True, False]
    assert owned.count("mark", quarantined_reason=Reason.CHANGED) == 1
