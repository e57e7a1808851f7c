"""Who reads a log, and what keeps it from being cut: conformance B18, B28; reads, and consumers that fall silent."""

import threading

import pytest

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.errors import OutOfOrder, RecordsTrimmed, UnknownConsumer, UnknownLog
from sexton.replication.binlog.model import Record, StoreResult
from tests.integration.replication.world import DB, SHOP, STEP, TERMS, World

DAY = 86_400


@pytest.fixture
def world(world: World) -> World:
    """A database with ten records that have expired, and one that has not."""
    world.keep(100)
    for seq in range(10, 110, 10):
        world.commit(seq, world.now - 200_000)
    world.commit(110)
    return world


@pytest.mark.parametrize("point", ["binlog.guarded", "binlog.written", "binlog.committed"])
def test_b28_a_consumer_registers_before_a_cut_or_after_it(world: World, point: str) -> None:
    answers: list[object] = []

    def register() -> None:
        try:
            answers.append(world.b.consumers.register(SHOP, "lisbon", DB, after=50).acked)
        except RecordsTrimmed as e:
            answers.append(e)

    asking = threading.Thread(target=register)

    def meanwhile(name: str) -> None:
        if name == point:
            asking.start()

    with installed(meanwhile):
        world.look()
    asking.join(30)

    (told,) = answers
    if isinstance(told, RecordsTrimmed):
        assert (world.log().watermark, told.first) == (100, 101)
    else:
        assert (told, world.log().watermark, world.seqs(after=50)) == (50, 50, [60, 70, 80, 90, 100, 110])


def test_b28_one_that_comes_too_late_is_told_where_to_begin(world: World) -> None:
    world.look()

    with pytest.raises(RecordsTrimmed) as told:
        world.b.consumers.register(SHOP, "lisbon", DB, after=51)
    assert told.value.first == 101
    assert world.b.consumers.register(SHOP, "lisbon", DB).acked == 100


def test_an_acknowledgement_only_rises_and_is_of_what_there_is(world: World) -> None:
    world.b.consumers.register(SHOP, "lisbon", DB, after=50)

    assert world.b.consumers.acknowledge(SHOP, "lisbon", DB, "", 70).acked == 70
    assert world.b.consumers.acknowledge(SHOP, "lisbon", DB, "", 60).acked == 70
    with pytest.raises(BadInput, match="the last record of sales is 110"):
        world.b.consumers.acknowledge(SHOP, "lisbon", DB, "", 2**61)
    with pytest.raises(UnknownConsumer):
        world.b.consumers.acknowledge(SHOP, "porto", DB, "", 60)
    world.look()
    assert world.log().held == {"lisbon": 70}


def test_a_consumer_that_is_silent_for_too_long_is_lost_and_said_so(world: World) -> None:
    world.b.consumers.register(SHOP, "lisbon", DB, after=50)
    world.look()
    world.later(2 * TERMS.hold_limit_seconds)  # nobody looked, and perhaps nobody could say anything
    world.look()
    world.later(STEP)
    assert (world.look().lost, world.log().watermark) == (0, 50)

    world.steadily(TERMS.hold_limit_seconds)

    assert (world.log().held, world.seqs()) == ({}, [])
    (its,) = world.b.consumers.all(SHOP)
    assert its.lost_at is not None
    with pytest.raises(RecordsTrimmed):
        world.b.consumers.acknowledge(SHOP, "lisbon", DB, "", 60)
    assert world.b.consumers.acknowledge(SHOP, "lisbon", DB, "", 110).lost_at is None


def test_a_consumer_of_a_table_holds_what_is_of_its_table(db: Database) -> None:
    world = World(db)
    world.keep(10)
    for seq, table in enumerate(("orders", "users", "orders", "users"), 1):
        world.commit(seq, world.now - 60_000, tables=[table])
    world.b.consumers.register(SHOP, "lisbon", DB, "orders", after=0)
    world.b.consumers.acknowledge(SHOP, "lisbon", DB, "orders", 1)

    world.look()

    assert (world.log().watermark, world.log().held) == (2, {"lisbon": 2})
    world.b.consumers.acknowledge(SHOP, "lisbon", DB, "orders", 3)
    world.look()
    assert (world.log().watermark, world.log("orders").watermark) == (4, 3)
    assert world.b.records.read(SHOP, DB, "orders", 3).status == "TOO_NEW"


def test_reads_say_what_is_gone_what_is_not_there_yet_and_what_nobody_keeps(world: World) -> None:
    world.look()

    assert world.b.records.read(SHOP, DB, after=110).status == "TOO_NEW"
    found = world.b.records.read(SHOP, DB, after=100)
    assert (found.status, [r.commit_seq for r in found.records], found.first, found.last) == ("OK", [110], 101, 110)
    with pytest.raises(RecordsTrimmed, match="the first available is 101"):
        world.b.records.read(SHOP, DB, after=99)
    for db, table in (("nobody", ""), (DB, "nothing")):
        with pytest.raises(UnknownLog):
            world.b.records.read(SHOP, db, table)


def test_records_come_in_order_and_again(world: World) -> None:
    again = [Record(commit_seq=seq, timestamp=1, type="ALTER") for seq in (10, 100, 110, 120)]
    assert world.b.records.add(SHOP, DB, again) == StoreResult(stored=1, known=3)
    world.look()
    assert world.b.records.add(SHOP, DB, again) == StoreResult(known=2, old=2)

    with pytest.raises(OutOfOrder):
        world.commit(115)
    with pytest.raises(BadInput, match="twice"):
        world.b.records.add(SHOP, DB, [again[0], again[0]])
    with pytest.raises(UnknownInstance):
        world.b.records.add("nobody", DB, again)
    assert world.seqs() == [110, 120]


PARTS = '{"tableRecords": {"t": {"partitionRecords": [{"partitionId": 1%s}]}}}'


@pytest.mark.parametrize(
    "data",
    ["", "[]", "{}", '{"tableRecords": []}', '{"tableRecords": {"t": {}}}', "[" * 100_000, "nan", "\ud800"]
    + [PARTS.replace("%s", its) for its in ("", ', "version": -1', ', "version": true', f', "version": {2**63}')],
)
def test_an_upsert_that_does_not_say_what_it_made_is_refused(world: World, data: str) -> None:
    with pytest.raises(BadInput, match="120"):
        world.b.records.add(SHOP, DB, [Record(commit_seq=120, tables=("t",), data=data)])

    assert world.log().last_seq == 110


def test_a_log_that_begins_later_does_not_look_whole(world: World) -> None:
    world.keep(enabled=False)
    world.keep(100, table="orders")
    world.commit(120, orders={"p1": 1})
    world.keep(100, table="users", from_seq=150)
    world.keep(100)

    with pytest.raises(RecordsTrimmed, match="151"):
        world.b.records.read(SHOP, DB, "users", 120)
    with pytest.raises(RecordsTrimmed, match="121"):
        world.b.records.read(SHOP, DB, "", 110)
    assert world.seqs("orders") == [120]
