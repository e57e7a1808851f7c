"""Reports of backends decide which copies are bad, behind or whole (C04 to C06, C08, C12 to C17)."""

import pytest

from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import BadInput
from sexton.replication.errors import BootTooHigh, LastCopy
from sexton.replication.journal.model import Op
from sexton.replication.replicas.model import MAX_BOOT, MAX_BOOT_STEP, ReplicaReport, TabletReport
from sexton.replication.replicas.policy import describe_faults, need
from tests.integration.replication.binlog_instance import REPLICA_SETTINGS, BinlogInstance

GAP = REPLICA_SETTINGS.gap_persist_seconds


@pytest.fixture
def binlogs(binlogs: BinlogInstance) -> BinlogInstance:
    """A database with a TTL, one tablet on two backends, and an upsert that has expired."""
    binlogs.configure_log(10)
    binlogs.place("t1", "b1", "b2")
    binlogs.report_whole("t1", "b2", 9)
    binlogs.commit(1, binlogs.now - 60_000, orders={"p1": 8})
    binlogs.cut_expired()
    return binlogs


def ranges(*of: tuple[int, int], **more: object) -> TabletReport:
    """Return what b1 says of its copy."""
    return TabletReport(uid="t1.b1", ranges=of, **more)  # type: ignore[arg-type]


def replica_messages(binlogs: BinlogInstance) -> list[list[dict[str, object]]]:
    """Return what followers are told of replicas."""
    return [e.body["replicaReportInfos"] for e in binlogs.journal(Op.BACKEND_REPLICAS_INFO)]


def test_c04_a_tablet_without_any_rowset_is_bad(binlogs: BinlogInstance) -> None:
    heard = binlogs.report("b1", ranges())

    assert (heard.taken, heard.bad) == (1, 1)
    assert binlogs.replica("t1", "b1").bad
    assert replica_messages(binlogs) == [[{"tabletId": "t1", "type": "BAD", "lastFailedVersion": -1}]]
    assert binlogs.granted_cuts("b2") == {}
    binlogs.report("b1", ranges())
    assert len(replica_messages(binlogs)) == 1


def test_c05_a_gap_blocks_at_once_and_is_marked_if_it_stays(binlogs: BinlogInstance) -> None:
    binlogs.report("b1", ranges((0, 3), (5, 9)))
    assert (binlogs.replica("t1", "b1").failed, replica_messages(binlogs)) == (-1, [])
    assert binlogs.granted_cuts("b2") == {"t1.b2": 3}

    binlogs.report("b1", ranges((0, 3), (4, 4), (5, 9)))
    assert binlogs.replica("t1", "b1").gap_since is None
    assert binlogs.granted_cuts("b2") == {"t1.b2": 8}

    binlogs.report("b1", ranges((0, 9), (11, 11)))
    binlogs.later(GAP - 1)
    assert binlogs.report("b1", ranges((0, 9), (11, 12))).missing == 0
    binlogs.later(1)
    assert binlogs.report("b1", ranges((0, 9), (11, 13))).missing == 1
    assert replica_messages(binlogs)[-1] == [{"tabletId": "t1", "type": "MISSING_VERSION", "lastFailedVersion": 10}]


def test_c06_c08_missing_version_is_remembered_until_repaired(binlogs: BinlogInstance) -> None:
    binlogs.report("b1", ranges((0, 10), (12, 12)))
    binlogs.later(GAP)
    binlogs.report("b1", ranges((0, 10), (12, 12)))
    assert binlogs.replica("t1", "b1").failed == 11

    binlogs.report("b1", ranges((0, 10), (12, 13)))
    assert binlogs.replica("t1", "b1").failed == 11
    assert len(replica_messages(binlogs)) == 1

    assert binlogs.report("b1", ranges((0, 12))).healthy == 1
    assert binlogs.replica("t1", "b1").failed == -1
    assert replica_messages(binlogs)[-1] == [{"tabletId": "t1", "type": "HEALTHY", "lastFailedVersion": -1}]


def test_a_copy_with_another_schema_lets_nobody_delete(binlogs: BinlogInstance) -> None:
    binlogs.place("t1", "b1", "b2", schema_hash=5)
    unreported = binlogs.granted_cuts("b2")
    binlogs.report("b2", TabletReport(uid="t1.b2", ranges=((0, 9),), schema_hash=5))
    other = binlogs.report("b1", ranges((0, 9), schema_hash=7))
    blocked = binlogs.granted_cuts("b2")
    [listed], now = binlogs.service.replicas.list_unhealthy(binlogs.instance)
    with pytest.raises(LastCopy):
        binlogs.service.placements.decommission(binlogs.instance, "b2")
    still = binlogs.report("b1", ranges((0, 9)))
    whole = binlogs.report("b1", ranges((0, 9), schema_hash=5))

    assert (unreported, blocked) == ({}, {})
    assert (other.bad, still.healthy, whole.healthy) == (1, 0, 1)
    assert describe_faults(listed, now) == "bad, schema hash 7 in place of 5"
    assert [[said["type"] for said in message] for message in replica_messages(binlogs)] == [["BAD"], ["HEALTHY"]]
    assert binlogs.granted_cuts("b2") == {"t1.b2": 8}


def test_another_schema_needs_new_reports_and_no_hash_keeps_it(binlogs: BinlogInstance) -> None:
    both = {b: TabletReport(uid=f"t1.{b}", ranges=((0, 9),), schema_hash=5) for b in ("b1", "b2")}
    needs = []
    for placed in (5, None, 6):
        binlogs.place("t1", "b1", "b2", schema_hash=placed)
        needs.append((need(binlogs.replica("t1", "b1"), binlogs.now), binlogs.replica("t1", "b1").schema_hash))
        for backend, report in both.items():
            binlogs.report(backend, report)

    assert needs == [(0, 5), (10, 5), (0, 6)]
    assert binlogs.replica("t1", "b1").bad
    assert binlogs.granted_cuts("b2") == {}


def test_c12_bad_overrides_missing(binlogs: BinlogInstance) -> None:
    its = ranges((0, 3), (5, 9), bad=True, version_miss=True)
    binlogs.report("b1", its)
    binlogs.later(GAP)

    heard = binlogs.report("b1", its)

    assert (heard.bad, heard.missing, binlogs.replica("t1", "b1").failed) == (0, 0, -1)
    assert replica_messages(binlogs) == [[{"tabletId": "t1", "type": "BAD", "lastFailedVersion": -1}]]


def test_c18_a_miss_closes_the_gate_at_what_was_known(binlogs: BinlogInstance) -> None:
    miss = TabletReport(uid="t1.b1", version=6, version_miss=True)
    binlogs.report("b1", miss)
    assert binlogs.granted_cuts("b2") == {}

    binlogs.report("b1", ranges((0, 4)))
    binlogs.report("b1", miss)

    assert binlogs.granted_cuts("b2") == {"t1.b2": 3}
    binlogs.report("b1", ranges((0, 6)))
    assert binlogs.granted_cuts("b2") == {"t1.b2": 6}


def test_crossing_ranges_are_shown_and_count_where_readable(binlogs: BinlogInstance) -> None:
    binlogs.report("b1", ranges((0, 5), (4, 9)))

    its = binlogs.replica("t1", "b1")
    assert (its.crossing, its.needs, its.gap_since is not None) == (True, 6, True)
    assert binlogs.granted_cuts("b2") == {"t1.b2": 5}


def test_a_late_or_foreign_report_is_ignored(binlogs: BinlogInstance) -> None:
    assert binlogs.report("b1", ranges((0, 9)), boot=2, sequence=5).taken == 1

    for boot, sequence in ((2, 5), (2, 4), (1, 99)):
        assert binlogs.report("b1", ranges((0, 3)), boot=boot, sequence=sequence).stale == 1
    assert binlogs.report("b1", TabletReport(uid="t0.b1", version=1), boot=2, sequence=6).unknown == 1
    assert binlogs.report("b2", ranges((0, 3)), boot=2, sequence=6).unknown == 1
    assert binlogs.replica("t1", "b1").needs == 10
    assert binlogs.report("b1", ranges((0, 3)), boot=3, sequence=0).taken == 1


def test_an_impossible_report_is_refused_as_a_whole(binlogs: BinlogInstance) -> None:
    good = ranges((0, 9))
    for its in ([good, good], [ranges((3, 1))]):
        with pytest.raises(BadInput):
            binlogs.report("b1", *its)
    with pytest.raises(UnknownInstance):
        binlogs.service.reports.accept("nobody", "b1", ReplicaReport(boot=1, sequence=1))

    assert binlogs.replica("t1", "b1").continuous_version == -1


def test_a_report_uses_up_no_boots_or_sequences(binlogs: BinlogInstance) -> None:
    binlogs.report("b1", ranges((0, 3)), boot=1, sequence=1)
    for boot, sequence in ((MAX_BOOT + 1, 1), (2**62, 1), (2, MAX_BOOT + 1), (MAX_BOOT_STEP + 2, 1), (MAX_BOOT, 1)):
        with pytest.raises(BootTooHigh, match="of backend b1"):
            binlogs.report("b1", ranges((0, 5)), boot=boot, sequence=sequence)

        assert binlogs.replica("t1", "b1").needs == 4
    assert binlogs.report("b1", ranges((0, 9)), boot=2, sequence=1).taken == 1
    binlogs.place("t2", "b3", part="p2")
    first = TabletReport(uid="t2.b3", version=1)  # its boot may be an instant
    assert binlogs.report("b3", first, boot=2 * MAX_BOOT_STEP, sequence=1).taken == 1
