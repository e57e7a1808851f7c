"""What a second saboteur found: resets, restores, restored manifests, and what was asked too early."""

from typing import Any

import pytest
from sqlalchemy import insert, select, update

from sexton.kernel.errors import BadInput
from sexton.wal.model import Mode, Why
from sexton.wal.orders import LeaderReport, MapOrder, OpenRegionOrder, RegionDrop, RegionMapping, Stream
from sexton.wal.port import LogFault, ReplayRefused
from sexton.wal.purger import Purger
from sexton.wal.sql.resets import ResetStore
from tests.contract.wal.field import Field


@pytest.fixture
def resets(field: Field) -> ResetStore:
    return ResetStore(field.db)


@pytest.mark.parametrize("how", ["moved", "dropped"])
def test_a_region_that_went_holds_after_a_reset_of_its_topic(field: Field, resets: ResetStore, how: str) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    field.purge(topic)
    went: Any = {"moved": ("r1",)} if how == "moved" else {"dropped": (RegionDrop(region="r1", undrop_seconds=3_600),)}
    field.map(topic, RegionMapping(region="r2"), **went)  # r1 has entries 0..99 in memory only; nobody told of a flush
    with field.db.write() as c:  # its end moved back, and an operator resets it
        c.execute(update(field.db.t.wal_topic).values(quarantined="its end is 90"))
    resets.topic(topic)
    field.map(topic, RegionMapping(region="r2", epoch=5), **went)
    field.purge(topic)
    field.flushed(topic, "r2", 99, epoch=5)

    done = field.purge(topic)

    assert field.start(topic) == 0, (done.floor, done.verdict)


def test_after_a_reset_the_map_of_before_is_no_report(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    region = RegionMapping(region="r1", epoch=3, first=50)  # the end of the old topic
    field.purge(topic)
    field.map(topic, region)
    field.purge(topic)
    field.place.recreate(topic)
    field.place.append(topic, 60)  # of r1, in memory only
    assert field.purge(topic).verdict.quarantine
    resets.topic(topic)
    field.purge(topic)  # its turn is at once

    field.map(topic, region.model_copy(update={"epoch": 4}))
    done = field.purge(topic)

    assert field.start(topic) == 0, (done.floor, done.verdict)  # nobody has told anew


def test_what_was_told_before_a_region_was_reset_does_not_count_after_it(field: Field, resets: ResetStore) -> None:
    topic = field.topic(150)
    field.map(topic, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 129)
    field.flushed(topic, "r2", 99)
    field.purge(topic)  # floor 100: r2 holds
    with pytest.raises(ReplayRefused, match=r"20\.\.99"):  # r1 was restored from last night
        field.open(topic, "r1", 19, epoch=1)
    region = resets.region(topic, "r1")  # the gap is accepted: it needs 100 and above
    field.flushed(topic, "r1", 139)  # on its way from before
    field.flushed(topic, "r2", 149)
    done = field.purge(topic)

    assert region.keep_from == 100
    assert field.start(topic) <= 100, done.floor
    assert field.open(topic, "r1", 19, epoch=1).start == 100


def test_after_a_restore_of_the_database_what_the_copy_says_of_a_region_is_no_report(
    field: Field, resets: ResetStore
) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", epoch=1, first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 89, epoch=1)
    r = field.db.t.wal_region
    with field.db.read() as c:
        copy = dict(c.execute(select(r)).one()._mapping)  # the copy is made here
    pin = field.open(topic, "r1", 49, epoch=2)  # its manifest was restored: 50 and above are in its memory alone
    field.replays.release(pin.id)
    with field.db.write() as c:  # the database is restored from the copy
        c.execute(r.delete())
        c.execute(insert(r).values(**copy))
    resets.restored()
    field.map(topic, RegionMapping(region="r1", epoch=2, first=0))

    done = field.purge(topic)

    assert pin.start == 50
    assert field.start(topic) <= 50, done.floor


def test_after_a_restore_a_region_that_moved_since_holds(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 99)
    field.map(topic, RegionMapping(region="r2"), moved=("r1",))
    for _ in range(2):
        field.purge(topic)
    assert [x.region for x in field.store.regions(topic)] == ["r2"]
    # the copy is made here. Then r1 comes back, appends 100..149, and moves away again: the copy knows nothing of it.
    field.place.append(topic, 50)
    resets.restored()
    field.map(topic, RegionMapping(region="r2"), moved=("r1",))
    field.purge(topic)
    field.flushed(topic, "r2", 149)

    done = field.purge(topic)

    assert field.start(topic) <= 100, done.floor


def test_a_stream_that_was_restored_alone_is_read_again(field: Field) -> None:
    topic = field.topic(130)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    two = (Stream(flushed=100), Stream(flushed=50, idle=120))
    field.heartbeats.hear("n", [LeaderReport(topic=topic, region="r1", epoch=0, streams=two)])
    field.place.append(topic, 70)
    more = (Stream(flushed=100, idle=195), Stream(flushed=190))  # above the end that is known: waits
    told = field.heartbeats.hear("n", [LeaderReport(topic=topic, region="r1", epoch=0, streams=more)])

    # the first stream's files were restored from a backup: it lacks 71..100
    pin = field.replays.open(OpenRegionOrder(topic=topic, region="r1", epoch=1, flushed=(70, 190)))

    assert told.waiting == 1
    assert pin.start == 71


def test_a_manifest_that_cannot_be_does_not_quarantine_everybody(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1", RegionMapping(region="r2", first=0))
    field.purge(topic)
    field.flushed(topic, "r2", 89)
    field.open(topic, "r1", 10**15)

    assert field.purge(topic).verdict.quarantine == ""


def test_a_fault_in_between_does_not_make_a_block_young_again(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1")  # never reports: blocked
    field.purge(topic)
    since = field.store.topic(topic).blocked[Why.SILENT]
    for _ in range(4):  # once in five hours Kafka does not answer
        field.wait(5 * 3_600)
        field.floors.raise_floors(
            {topic: LogFault(topic, "_TIMED_OUT", "x", passes=True)}, field.floors.state_before_read([topic])
        )
        field.wait(1_800)
        field.purge(topic)

    assert field.store.topic(topic).blocked[Why.SILENT] == since


class Twice:
    """A log that is slow once, and what happens while it is asked the second time."""

    def __init__(self, field: Field, clock: list[float], do: Any) -> None:
        self._log, self._clock, self._do, self._n = field.place.log, clock, do, 0
        self.delete_before, self.check = self._log.delete_before, self._log.check

    def facts(self, topics: Any) -> Any:
        self._n += 1
        if self._n == 1:
            self._clock[0] += 39
        if self._n == 2:
            self._do()
        return self._log.facts(topics)


def test_a_topic_that_is_disabled_before_the_log_is_told_is_not_purged(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 89)
    clock = [0.0]
    slow = Twice(field, clock, lambda: field.store.disable(topic))

    Purger(slow, field.floors, lambda: clock[0]).purge([topic])  # type: ignore[arg-type]

    assert field.start(topic) == 0


def test_a_topic_of_which_all_regions_are_gone_at_a_reset_is_purged_to_its_end(
    field: Field, resets: ResetStore
) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    resets.topic(topic)
    for _ in range(5):
        field.map(topic, dropped=(RegionDrop(region="r1"),))
        field.purge(topic)
        field.wait(86_400)

    assert field.purge(topic).floor == 100, field.store.topic(topic).blocked


def test_a_manifest_of_before_a_topic_was_made_anew_hides_nothing_of_the_new_one(
    field: Field, resets: ResetStore
) -> None:
    topic = field.topic(200)
    field.map(topic, RegionMapping(region="r1", epoch=3, first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 149, epoch=3)
    field.purge(topic)
    field.place.recreate(topic)
    field.place.append(topic, 180)  # of r1, in memory only: 0..179 of the new topic
    assert field.purge(topic).verdict.quarantine
    resets.topic(topic)
    field.map(topic, RegionMapping(region="r1", epoch=4, first=0))
    field.purge(topic)

    with pytest.raises(ReplayRefused, match="after a reset"):  # its node died; the manifest counts by the old topic
        field.open(topic, "r1", 149, epoch=5)
    resets.region(topic, "r1", 0)

    assert field.open(topic, "r1", 149, epoch=5).start == 0


class Far:
    """A log of which one topic's leader cannot be reached: whoever asks for it waits."""

    def __init__(self, field: Field, clock: list[float], far: str) -> None:
        self._log, self._clock, self._far = field.place.log, clock, far
        self.delete_before, self.check = self._log.delete_before, self._log.check

    def facts(self, topics: Any) -> Any:
        told = dict(self._log.facts([t for t in topics if t != self._far]))
        if self._far in topics:
            self._clock[0] += 39
            told[self._far] = LogFault(self._far, "_TIMED_OUT", "its leader does not answer", passes=True)
        return told


def test_a_topic_whose_leader_cannot_be_reached_keeps_no_other_one_of_its_page(field: Field) -> None:
    near, far = field.topic(100), field.topic(100)
    for topic in (near, far):
        field.map(topic, RegionMapping(region="r1", first=0))
        field.purge(topic)
        field.flushed(topic, "r1", 89)
    clock = [0.0]

    done = Purger(Far(field, clock, far), field.floors, lambda: clock[0]).purge([near, far])  # type: ignore[arg-type]

    assert (done[near].fault, field.start(near)) == ("", 89)
    assert ("does not answer" in done[far].fault, field.start(far)) == (True, 0)


def test_a_map_that_is_sent_again_is_the_same_though_less_time_is_left_of_a_drop(field: Field) -> None:
    topic = field.topic(10)
    order = MapOrder(
        topic=topic,
        generation=7,
        regions=(RegionMapping(region="r1"), RegionMapping(region="r2")),
        dropped=(RegionDrop(region="r3", undrop_seconds=7_200),),
    )
    field.maps.put(order)
    field.wait(3_600)
    again = {"regions": order.regions[::-1], "dropped": (RegionDrop(region="r3", undrop_seconds=3_600),)}

    assert field.maps.put(order.model_copy(update=again)).generation == 7


def test_numbers_whose_sum_nobody_can_store_spoil_no_other_report(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    field.purge(topic)
    wild = LeaderReport(
        topic=topic, region="r1", epoch=0, streams=(Stream(flushed=2**62 - 1), Stream(flushed=2**62 - 1))
    )
    fine = LeaderReport(topic=topic, region="r2", epoch=0, streams=(Stream(flushed=9),))

    heard = field.heartbeats.hear("n", [wild, fine])

    assert (heard.taken, heard.ignored) == (1, 1)


def test_what_one_purge_freed_no_other_one_counts_again(field: Field) -> None:
    topic = field.topic(200)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    for last in (99, 149):  # two purges raise, before either deletes
        field.flushed(topic, "r1", last)
        field.floors.raise_floors(field.place.log.facts([topic]), field.floors.state_before_read([topic]))
    for offset in (99, 149):
        field.place.log.delete_before({topic: offset})
        field.floors.record_log_state(field.place.log.facts([topic]))

    assert [p.freed for p in field.store.purges(topic)] == [50, 99]
    assert field.store.topic(topic).freed == 149


def test_a_topic_that_was_looked_at_before_it_was_enabled_has_its_turn_at_once(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.store.disable(topic)
    field.purge(topic)
    field.wait(8 * 3_600)

    its = field.store.enable(topic, Mode.DELETE)

    assert (its.blocked, its.looked_at) == ({}, None)


def test_a_region_is_reset_only_when_the_topic_was_seen_since_its_own_reset(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    resets.topic(topic)

    with pytest.raises(BadInput, match="let its owner send its map"):
        resets.region(topic, "r1", 0)
