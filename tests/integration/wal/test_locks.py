"""Locked topics and regions, and slow decisions, delay no renewal, no purge of others and no node (PostgreSQL)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from sexton.wal.model import Mode
from sexton.wal.policy import MapOrder, OpenRegionOrder, RegionMapping
from sexton.wal.port import RegionOfAnotherNode, Step
from sexton.wal.sql import floors
from tests.integration.wal.topic_stores import TopicStores
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_for_lock_waiter

ENTRIES = 30


def make(topics: TopicStores, topic: str, instance: str, regions: int = 1) -> None:
    """Make a topic whose regions need entry 20 and later ones."""
    topics.place.log.create(topic)  # type: ignore[attr-defined]
    topics.place.append(topic, ENTRIES)
    topics.store.enable(topic, Mode.DELETE, instance)
    mappings = tuple(RegionMapping(region=f"r{n}", first=20, node="n1") for n in range(regions))
    topics.maps.put(MapOrder(instance=instance, topic=topic, generation=1, regions=mappings))


@contextmanager
def locked(topics: TopicStores, topic: str) -> Iterator[None]:
    """Lock a topic, as a long decision about it would."""
    t = topics.db.t.wal_topic
    with topics.db.write() as c:
        c.execute(select(t.c.name).where(t.c.name == topic).with_for_update())
        yield


def test_renewal_waits_for_no_other_topic(topics: TopicStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "MAX_PART_REGIONS", 3)
    for instance, regions in (("other", 1), ("shop", 4)):
        first, last = f"aaa-{instance}", f"zzz-{instance}"
        make(topics, first, "shop")
        make(topics, last, instance, regions)
        pin = topics.replays.open(OpenRegionOrder(topic=first, region="r0", epoch=1, flushed=(None,), node="n1"))

        with ThreadPoolExecutor(1) as pool:
            with locked(topics, last):
                judging = pool.submit(topics.purger.preview, [first, last])
                wait_for_lock_waiter(topics.db)
                topics.replays.renew(pin.id)
                assert not judging.done()
            verdicts = judging.result(PATIENCE_SECONDS)

        assert {name: verdict.keep_from for name, verdict in verdicts.items()} == {first: 20, last: 20}


@pytest.mark.slow
def test_locked_topic_delays_no_other(topics: TopicStores, caplog: pytest.LogCaptureFixture) -> None:
    for topic in ("aaa", "zzz"):
        make(topics, topic, "shop")

    with locked(topics, "aaa"):
        verdicts = topics.purger.preview(["aaa", "zzz"], Step.PREPARE)
        topics.floors.record_entry_sizes(["aaa", "zzz"], {"aaa": 5.0, "zzz": 5.0})
        reviewed = topics.purger.review(["aaa"])  # a page of a review, whose other pages go on
        with pytest.raises(OperationalError):
            topics.purge("aaa")

    assert (list(verdicts), verdicts["zzz"].keep_from, reviewed) == (["zzz"], 20, {})
    assert "left to the next purge: aaa\n" in caplog.text
    assert [topics.store.topic(name).entry_bytes for name in ("aaa", "zzz")] == [0.0, 5.0]
    assert topics.store.topic("aaa").checked_at is None
    assert topics.purge("aaa").floor == 20


NODES = {"mapped": "n1", "led": "n1", "own": "n2", "free": ""}
"""The leader of each region."""


@pytest.fixture
def topic(topics: TopicStores) -> str:
    """A topic whose regions other nodes lead by the map, by their reports, or not at all."""
    mapped = {"mapped": "n1", "own": "n2"}
    name = topics.mapped_topic(100, *(RegionMapping(region=r, first=0, node=mapped.get(r, "")) for r in NODES))
    topics.node_reports(name, "n1", "led", last=9)
    return name


def needs(topics: TopicStores, topic: str) -> dict[str, int | None]:
    return {region.region: region.keep_from for region in topics.store.regions(topic)}


def while_locked(topics: TopicStores, names: tuple[str, ...], do: Callable[[], object]) -> None:
    """Run a function in another thread while a transaction has locked these regions."""
    r = topics.db.t.wal_region
    with ThreadPoolExecutor(1) as pool, topics.db.write() as c:
        c.execute(select(r.c.region).where(r.c.region.in_(names)).with_for_update())
        pool.submit(do).result(PATIENCE_SECONDS)


def test_heartbeat_locks_no_region_of_another_node(topics: TopicStores, topic: str) -> None:
    def send() -> None:
        with pytest.raises(RegionOfAnotherNode, match="is node n1's, not n2's"):
            topics.node_reports(topic, "n2", *NODES, last=49)

    while_locked(topics, ("mapped", "led"), send)

    assert needs(topics, topic) == {"mapped": 0, "led": 10, "own": 50, "free": 50}


def test_region_given_away_meanwhile_is_not_reported(topics: TopicStores, topic: str) -> None:
    r = topics.db.t.wal_region
    with ThreadPoolExecutor(1) as pool:
        with topics.db.write() as c:
            c.execute(r.update().where(r.c.topic == topic, r.c.region == "own").values(mapped_node="n1"))
            sending = pool.submit(topics.node_reports, topic, "n2", "free", "own", last=49)
            wait_for_lock_waiter(topics.db)
        with pytest.raises(RegionOfAnotherNode, match=r"region own .* is node n1's, not n2's"):
            sending.result(PATIENCE_SECONDS)

    assert needs(topics, topic) == {"mapped": 0, "led": 10, "own": 0, "free": 50}


def test_renewal_waits_for_no_heartbeat(topics: TopicStores, topic: str) -> None:
    pin = topics.replays.open(OpenRegionOrder(topic=topic, region="own", epoch=1, flushed=(None,), node="n2"))

    while_locked(topics, tuple(NODES), lambda: topics.replays.renew(pin.id))

    assert topics.replays.find(pin.id) is not None
