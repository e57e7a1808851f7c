"""A cut is granted again until its backend acknowledges that the versions are gone."""

from sexton.replication.binlog.model import MAX_COMMIT_SEQ, CutDone
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance


def old(binlogs: BinlogInstance) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return binlogs.now - 60_000


def test_an_unknown_copy_is_granted_again_after_a_drop(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for tablet, part in (("t1", "p1"), ("t2", "p2")):
        binlogs.place(tablet, "b1", part=part)
        binlogs.report_whole(tablet, "b1", 9)
    binlogs.commit(1, old(binlogs), orders={"p1": 3, "p2": 3})
    binlogs.cut_expired()
    binlogs.granted_cuts("b1")
    binlogs.service.sender.acknowledge(SHOP, "b1", [CutDone(uid="t1.b1", version=-1, outcome="unknown")])
    binlogs.service.configs.drop(SHOP, DB, "orders")

    binlogs.service.sender.acknowledge(SHOP, "b1", [CutDone(uid="t2.b1", version=3)])

    assert binlogs.granted_cuts("b1") == {"t1.b1": MAX_COMMIT_SEQ, "t2.b1": MAX_COMMIT_SEQ}


def test_a_failed_cut_is_granted_again(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.place("t1", "b1")
    binlogs.report_whole("t1", "b1", 9)
    binlogs.commit(1, old(binlogs), orders={"p1": 3})
    binlogs.cut_expired()
    binlogs.granted_cuts("b1")

    binlogs.service.sender.acknowledge(SHOP, "b1", [CutDone(uid="t1.b1", version=3, outcome="failed", detail="EIO")])

    assert binlogs.granted_cuts("b1") == {"t1.b1": 3}


def test_a_manual_pull_keeps_the_backend_in_rounds(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.place("t1", "b1")
    binlogs.commit(1, old(binlogs), orders={"p1": 3})
    binlogs.cut_expired()
    binlogs.service.sender.page(SHOP, "b1", queue=True)
    binlogs.service.sender.page(SHOP, "b1")

    assert list(binlogs.service.sender.waiting(SHOP, "", 10)) == ["b1"]
