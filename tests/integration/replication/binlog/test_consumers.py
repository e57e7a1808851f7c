"""A registered consumer blocks the cut of unread records until it is lost (B18, B28)."""

import threading

import pytest

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import BinlogSettings, StoredRecord, StoreResult
from sexton.replication.errors import OutOfOrder, RecordsTrimmed, UnknownConsumer, UnknownLog
from tests.integration.replication.binlog_instance import DB, STEP, BinlogInstance, new_instance
from tests.support.eventually import PATIENCE_SECONDS

HOLD = 1_200
"""Seconds after which a silent consumer is lost."""


@pytest.fixture
def binlogs(db: Database) -> BinlogInstance:
    """A database with ten records that have expired, and one that has not."""
    binlogs = new_instance(db, BinlogSettings(hold_limit_seconds=HOLD))
    binlogs.configure_log(100)
    for seq in range(10, 110, 10):
        binlogs.commit(seq, binlogs.now - 200_000)
    binlogs.commit(110)
    return binlogs


@pytest.mark.parametrize("point", ["binlog.guarded", "binlog.written", "binlog.committed"])
def test_b28_a_consumer_registers_before_a_cut_or_after_it(binlogs: BinlogInstance, point: str) -> None:
    answers: list[object] = []

    def register() -> None:
        try:
            answers.append(binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, after=50).acked)
        except RecordsTrimmed as e:
            answers.append(e)

    asking = threading.Thread(target=register)

    def meanwhile(name: str) -> None:
        if name == point:
            asking.start()

    with installed(meanwhile):
        binlogs.cut_expired()
    asking.join(PATIENCE_SECONDS)

    (told,) = answers
    if isinstance(told, RecordsTrimmed):
        assert (binlogs.log().watermark, told.first) == (100, 101)
    else:
        assert (told, binlogs.log().watermark, binlogs.readable_seqs(after=50)) == (50, 50, [60, 70, 80, 90, 100, 110])


def test_b28_a_late_consumer_gets_the_first_available_record(binlogs: BinlogInstance) -> None:
    binlogs.cut_expired()

    with pytest.raises(RecordsTrimmed) as told:
        binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, after=51)
    assert told.value.first == 101
    assert binlogs.service.consumers.register(binlogs.instance, "lisbon", DB).acked == 100


def test_an_acknowledgement_only_rises_up_to_the_end(binlogs: BinlogInstance) -> None:
    binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, after=50)

    assert binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "", 70).acked == 70
    assert binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "", 60).acked == 70
    with pytest.raises(BadInput, match="the last record of sales is 110"):
        binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "", 2**61)
    with pytest.raises(UnknownConsumer):
        binlogs.service.consumers.acknowledge(binlogs.instance, "porto", DB, "", 60)
    binlogs.cut_expired()
    assert binlogs.log().held == {"lisbon": 70}


def test_a_consumer_that_is_silent_for_too_long_is_lost(binlogs: BinlogInstance) -> None:
    binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, after=50)
    binlogs.cut_expired()
    binlogs.later(2 * HOLD)  # nobody looked, and perhaps nobody could say anything
    binlogs.cut_expired()
    binlogs.later(STEP)
    assert (binlogs.cut_expired().lost, binlogs.log().watermark) == (0, 50)

    binlogs.pass_time(HOLD)

    assert (binlogs.log().held, binlogs.readable_seqs()) == ({}, [])
    (its,) = binlogs.service.consumers.all(binlogs.instance)
    assert its.lost_at is not None
    with pytest.raises(RecordsTrimmed):
        binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "", 60)
    assert binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "", 110).lost_at is None


def test_a_consumer_of_a_table_blocks_only_its_records(db: Database) -> None:
    binlogs = new_instance(db)
    binlogs.configure_log(10)
    for seq, table in enumerate(("orders", "users", "orders", "users"), 1):
        binlogs.commit(seq, binlogs.now - 60_000, tables=[table])
    binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, "orders", after=0)
    binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "orders", 1)

    binlogs.cut_expired()

    assert (binlogs.log().watermark, binlogs.log().held) == (2, {"lisbon": 2})
    binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "orders", 3)
    binlogs.cut_expired()
    assert (binlogs.log().watermark, binlogs.log("orders").watermark) == (4, 3)
    assert binlogs.service.records.read(binlogs.instance, DB, "orders", 3).status == "TOO_NEW"


def test_reads_distinguish_trimmed_future_and_unknown(binlogs: BinlogInstance) -> None:
    binlogs.cut_expired()

    assert binlogs.service.records.read(binlogs.instance, DB, after=110).status == "TOO_NEW"
    found = binlogs.service.records.read(binlogs.instance, DB, after=100)
    assert (found.status, [r.commit_seq for r in found.records], found.first, found.last) == ("OK", [110], 101, 110)
    with pytest.raises(RecordsTrimmed, match="the first available is 101"):
        binlogs.service.records.read(binlogs.instance, DB, after=99)
    for db, table in (("nobody", ""), (DB, "nothing")):
        with pytest.raises(UnknownLog):
            binlogs.service.records.read(binlogs.instance, db, table)


def test_records_must_be_in_order_and_may_be_repeated(binlogs: BinlogInstance) -> None:
    again = [StoredRecord(commit_seq=seq, timestamp=1, type="ALTER") for seq in (10, 100, 110, 120)]
    assert binlogs.service.records.add(binlogs.instance, DB, again) == StoreResult(stored=1, known=3)
    binlogs.cut_expired()
    assert binlogs.service.records.add(binlogs.instance, DB, again) == StoreResult(known=2, old=2)

    with pytest.raises(OutOfOrder):
        binlogs.commit(115)
    with pytest.raises(BadInput, match="twice"):
        binlogs.service.records.add(binlogs.instance, DB, [again[0], again[0]])
    with pytest.raises(UnknownInstance):
        binlogs.service.records.add("nobody", DB, again)
    assert binlogs.readable_seqs() == [110, 120]


def test_a_log_that_begins_later_is_not_complete(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(enabled=False)
    binlogs.configure_log(100, table="orders")
    binlogs.commit(120, orders={"p1": 1})
    binlogs.configure_log(100, table="users", from_seq=150)
    binlogs.configure_log(100)

    with pytest.raises(RecordsTrimmed, match="151"):
        binlogs.service.records.read(binlogs.instance, DB, "users", 120)
    with pytest.raises(RecordsTrimmed, match="121"):
        binlogs.service.records.read(binlogs.instance, DB, "", 110)
    assert binlogs.readable_seqs("orders") == [120]
