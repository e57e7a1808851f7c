"""Purges of topics and cuts of binlogs are decided by rows, whatever an order over Temporal says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import BinlogActivities, WalActivities
from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.controls.model import ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.replication.journal.model import Op
from sexton.wal.purger import PurgeRounds
from sexton.wal.sql.store import WalSchedule
from tests.integration.replication.binlog_instance import BINLOG_SETTINGS, SHOP, BinlogInstance
from tests.integration.wal.logs import EmbeddedPlace
from tests.integration.wal.topic_stores import WAL_SETTINGS, TopicStores
from tests.servers.postgres import new_database
from tests.support.rig import DEPLOYMENT


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    url = new_database()
    schema.init(url, DEPLOYMENT)
    database = Database.open(url)
    yield database
    database.close()


@pytest.fixture
def topics(db: Database) -> TopicStores:
    return TopicStores(db, EmbeddedPlace(db))


def purge(topics: TopicStores, *names: str) -> None:
    """Send the orders for a review of all topics, and for single topics."""
    rounds = PurgeRounds(WalSchedule(topics.db, WAL_SETTINGS), topics.floors, topics.purger, None, 1)
    activities = WalActivities(rounds)
    ActivityEnvironment().run(activities.review_topics, "")
    for name in names:
        ActivityEnvironment().run(activities.purge_topic, name)


def topic(topics: TopicStores) -> str:
    """Make a topic of 200 entries, of which a region needs those from 50 on."""
    name = topics.topic(200)
    topics.map(name, "r1")
    topics.purge(name)
    topics.flushed(name, "r1", 49)
    return name


def test_h1_a_topic_is_purged_as_far_as_rows_allow(topics: TopicStores) -> None:
    enabled, disabled, quarantined = topic(topics), topic(topics), topic(topics)
    topics.store.disable(disabled)
    topics.place.recreate(quarantined)
    topics.place.append(quarantined, 200)

    purge(topics, enabled, disabled, quarantined)

    assert [topics.start(name) for name in (enabled, disabled)] == [49, 0]  # one entry is left below the floor
    assert topics.floors.topics([quarantined])[quarantined].quarantined
    assert topics.start(quarantined) == 0


def test_h1_no_topic_is_purged_during_a_stop(topics: TopicStores) -> None:
    name = topic(topics)
    ControlStore(topics.db).put(ControlKind.STOP, "*", "the test")

    purge(topics, name)

    assert topics.start(name) == 0


def test_h1_an_unknown_topic_is_refused(topics: TopicStores) -> None:
    with pytest.raises(ApplicationError) as refused:
        purge(topics, "unknown")

    assert refused.value.type == "UnknownTopic"


@pytest.mark.parametrize("halt", ["stop", "observe"])
def test_h1_binlogs_are_not_cut_against_the_controls(db: Database, halt: str) -> None:
    binlogs = BinlogInstance(db)
    with db.write() as c:
        binlogs.service.journal.append(c, SHOP, Op.GC_BINLOG, [{}])
    binlogs.later(BINLOG_SETTINGS.hold_limit_seconds + 1)
    activities = BinlogActivities(binlogs.service.live_rounds)
    if halt == "stop":
        binlogs.controls.put(ControlKind.STOP, SHOP, "the test")
    else:
        Registry(db).observe(SHOP)

    with pytest.raises(ApplicationError) as refused:
        ActivityEnvironment().run(activities.cut_binlogs, SHOP)

    assert refused.value.type == {"stop": "Halted", "observe": "NotEnabled"}[halt]
    assert len(binlogs.service.journal.read(SHOP, 0).entries) == 1


FORGED = {
    "purge_topic.topic": test_h1_a_topic_is_purged_as_far_as_rows_allow,
    "cut_binlogs.instance": test_h1_binlogs_are_not_cut_against_the_controls,
}
"""By field of an order: the test that forges it."""
