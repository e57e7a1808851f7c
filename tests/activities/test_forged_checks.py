"""Checks, purges of topics and cuts of binlogs are decided by rows, whatever an order over Temporal says."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import BinlogActivities, CheckActivities, WalActivities
from sexton.check.model import (
    CheckOrder,
    CheckRequest,
    ConcludeOrder,
    Evidence,
    Listing,
    Run,
    RunState,
    SecondCheckOrder,
)
from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.controls.model import ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.replication.journal.model import Op
from sexton.wal.purger import PurgeRounds
from sexton.wal.sql.store import WalSchedule
from tests.integration.check.conftest import Owned, live_view
from tests.integration.replication.binlog_instance import BINLOG_SETTINGS, SHOP, BinlogInstance
from tests.integration.wal.logs import EmbeddedPlace
from tests.integration.wal.topic_stores import WAL_SETTINGS, TopicStores
from tests.servers.postgres import new_database
from tests.support.rig import DEPLOYMENT

HOUR = 3_600
STEPS = ("compare", "look_again", "conclude_check")
IDENTITY = {"id": 4711, "instance": "bank", "run": "intruder"}
REST: dict[str, Any] = {
    "state": RunState.WHOLE,
    "cutoff": 2**52,
    "ended_at": 1,
    "asked_by": "intruder",
    "evidence": Evidence(cutoff=2**52, listings=()),
    "missing_inputs": ("nothing",),
}


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[Owned]:
    """A live file, an old orphan and one of two hours, which no check may judge yet."""
    rig = Owned(new_database()).register(tmp_path / "v")
    with live_view(rig):
        rig.write_live("data/t1/live_0.dat")
        rig.write_old("data/t1/old_0.dat")
        rig.write_old("data/t1/young_0.dat", age=2 * HOUR)
        yield rig


@pytest.fixture
def order(owned: Owned) -> CheckOrder:
    """The order of a check that has begun."""
    return begin(owned)


def begin(owned: Owned, run_id: str = "first") -> CheckOrder:
    """Begin a check in a run of its workflow; return its order."""
    order: CheckOrder = run(owned, "begin_check", CheckRequest(instance="shop"), run_id).order
    return order


def run(owned: Owned, name: str, order: Any, run_id: str = "") -> Any:
    """Run an activity of checks as a worker does."""
    activities, environment = CheckActivities(owned.checker, owned.direct, DEPLOYMENT), ActivityEnvironment()
    environment.info = replace(environment.info, workflow_run_id=run_id)
    return environment.run(getattr(activities, name), order)


def step(name: str, order: CheckOrder, evidence: Evidence) -> Any:
    """Return the order of a step."""
    if name == "compare":
        return order
    if name == "look_again":
        return SecondCheckOrder(order=order, evidence=evidence)
    return ConcludeOrder(instance=order.instance, run=order.run, evidence=evidence)


def stored(owned: Owned) -> Run:
    [row] = owned.runs.runs("shop")
    return row


def whole(cutoff: int) -> Evidence:
    """Return evidence as of a check that saw everything."""
    listings = (Listing(vault="disk", parts=1, ended=1, objects=1, live=1),)
    return Evidence(cutoff=cutoff, listings=listings, listed_at=cutoff + 1, live_from=cutoff + 2, live=1)


def test_h1_a_step_of_an_unknown_check_is_refused(owned: Owned, order: CheckOrder) -> None:
    for name, field in product(STEPS, IDENTITY):
        forged = order.model_copy(update={"run": order.run.model_copy(update={field: IDENTITY[field]})})

        with pytest.raises(ApplicationError) as refused:
            run(owned, name, step(name, forged, whole(order.run.cutoff)))

        assert refused.value.type == "UnknownCheck"
        assert (stored(owned).state, stored(owned).evidence) == (RunState.RUNNING, None)


def test_h1_a_check_judges_by_its_row_and_the_settings(owned: Owned, order: CheckOrder) -> None:
    update = {"instance": "bank", "run": order.run.model_copy(update=REST), "grace_seconds": 0, "inverted": False}
    forged = order.model_copy(update=update)

    seen = run(owned, "compare", forged)
    again = run(owned, "look_again", SecondCheckOrder(order=forged, evidence=whole(2**52)))
    report = run(owned, "conclude_check", step("conclude_check", forged, whole(2**52)))

    assert (seen.cutoff, again.cutoff, report.run.cutoff) == (order.run.cutoff,) * 3
    assert owned.open_findings() == {"ORPHAN": {"data/t1/old_0.dat"}}
    (listing,) = report.run.evidence.listings
    assert report.run.evidence == again.model_copy(update={"listings": (listing,)})
    assert (listing.model_copy(update={"unnamed": None}), listing.unnamed) == (again.listings[0], 1)
    assert [f.proven_at for f in owned.runs.findings("shop")] == [order.run.cutoff]


def test_h1_a_check_proves_no_more_than_its_comparison(owned: Owned, order: CheckOrder) -> None:
    report = run(owned, "conclude_check", step("conclude_check", order, whole(order.run.cutoff)))
    assert (report.run.state, report.run.missing_inputs) == (RunState.PARTIAL, ("its comparison did not end",))

    order = begin(owned, "second")
    seen = run(owned, "compare", order)
    report = run(owned, "conclude_check", step("conclude_check", order, seen.model_copy(update={"errors": ("x",)})))
    assert (report.run.state, report.run.missing_inputs) == (RunState.PARTIAL, ("x",))

    order = begin(owned, "third")
    seen = run(owned, "compare", order)
    for n in range(3):
        texts = tuple(f"{n}.{i} {'x' * 9_999}" for i in range(300))
        forged = seen.model_copy(update={"errors": texts, "notes": texts})
        run(owned, "look_again", SecondCheckOrder(order=order, evidence=forged))
    report = run(owned, "conclude_check", step("conclude_check", order, forged))
    assert report.run.state is RunState.PARTIAL
    assert len(report.model_dump_json()) < 200_000


FORGED = {
    **{
        f"{name}.{'order.' if name == 'look_again' else ''}run.{field}": test_h1_a_step_of_an_unknown_check_is_refused
        for name in STEPS
        for field in IDENTITY
    },
    **{
        f"{name}.{'order.' if name == 'look_again' else ''}{field}": test_h1_a_check_judges_by_its_row_and_the_settings
        for name in STEPS
        for field in ("instance", *(f"run.{field}" for field in REST))
    },
    **{
        f"{name}{field}": test_h1_a_check_judges_by_its_row_and_the_settings
        for name in ("compare.", "look_again.order.")
        for field in ("grace_seconds", "inverted")
    },
    "look_again.evidence": test_h1_a_check_judges_by_its_row_and_the_settings,
    "conclude_check.evidence": test_h1_a_check_proves_no_more_than_its_comparison,
}
"""By field of an order: the test that forges it."""


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
    activities = WalActivities(rounds, list)
    ActivityEnvironment().run(activities.review_topics, "")
    for name in names:
        ActivityEnvironment().run(activities.purge_topic, name)
    ActivityEnvironment().run(activities.purge_topics, names)


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
    with pytest.raises(ApplicationError) as refused:
        purge(topics, "unknown")
    assert refused.value.type == "UnknownTopic"

    ControlStore(topics.db).put(ControlKind.STOP, "*", "the test")
    purge(topics, enabled)
    assert topics.start(enabled) == 0
    ControlStore(topics.db).remove(ControlKind.STOP, "*")

    purge(topics, enabled, disabled, quarantined)

    assert [topics.start(name) for name in (enabled, disabled)] == [49, 0]  # one entry is left below the floor
    assert topics.floors.topics([quarantined])[quarantined].quarantined
    assert topics.start(quarantined) == 0


def test_h1_binlogs_are_not_cut_against_the_controls(db: Database) -> None:
    binlogs = BinlogInstance(db)
    with db.write() as c:
        binlogs.service.journal.append(c, SHOP, Op.GC_BINLOG, [{}])
    binlogs.later(BINLOG_SETTINGS.hold_limit_seconds + 1)
    activities = BinlogActivities(binlogs.service.live_rounds)

    def refused_cut() -> str | None:
        with pytest.raises(ApplicationError) as refused:
            ActivityEnvironment().run(activities.cut_binlogs, SHOP)
        assert len(binlogs.service.journal.read(SHOP, 0).entries) == 1
        return refused.value.type

    binlogs.controls.put(ControlKind.STOP, SHOP, "the test")
    assert refused_cut() == "Halted"
    binlogs.controls.remove(ControlKind.STOP, SHOP)
    Registry(db).observe(SHOP)
    assert refused_cut() == "NotEnabled"


FORGED_PURGES = {
    "purge_topic.topic": test_h1_a_topic_is_purged_as_far_as_rows_allow,
    "purge_topics.names": test_h1_a_topic_is_purged_as_far_as_rows_allow,
    "cut_binlogs.instance": test_h1_binlogs_are_not_cut_against_the_controls,
}
"""By field of an order: the test that forges it."""
