"""A round on Spark deletes exactly what a round in one process deletes."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.recycle.audit.store import AuditReader
from tests.integration.runtime.spark.conftest import Deleting, audit_locations
from tests.support.rig import RETENTION, Rig, listing, put


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
