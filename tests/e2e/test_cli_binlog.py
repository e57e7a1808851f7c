"""The command `sexton binlog` configures, explains and runs binlog GC."""

import asyncio
import json

import pytest
from temporalio.client import Client

from sexton.replication.binlog.model import BinlogSettings, GcReport, GcRequest
from sexton.runtime.temporal.client import CONVERTER
from tests.e2e.conftest import Run, findings, items
from tests.integration.replication.binlog_instance import DB, SHOP, STEP, BinlogInstance
from tests.support.rig import Rig
from workflows import ids

pytestmark = pytest.mark.slow

DAY = 86_400


@pytest.fixture
def world(shop: Rig) -> BinlogInstance:
    """Logs of ``sales``: records 1 to 3 of ``orders`` have expired, 4 has not; lisbon has all up to 2."""
    world = BinlogInstance(shop.db, BinlogSettings(free_records=3))
    world.configure_log(7 * DAY)
    for seq in (1, 2, 3):
        world.commit(seq, world.now - 8 * DAY * 1000, orders={"p1": seq})
    world.commit(4, orders={"p1": 4})
    world.service.consumers.register(SHOP, "lisbon", DB, after=2)
    return world


def waits(world: BinlogInstance) -> None:
    """Let so much expire that the cut waits for approval."""
    for seq in range(5, 16):
        world.commit(seq)
    world.later(8 * DAY)
    world.service.consumers.acknowledge(SHOP, "lisbon", DB, "", 15)
    assert world.cut_expired().waiting == 1


def test_a_log_is_set_listed_explained_and_disabled(offline: Run, shop: Rig, world: BinlogInstance) -> None:
    created = offline("binlog", "set", "stock", "--ttl", "12h", "--max-records", "100", "--from-seq", "40")
    explained, as_json = offline("binlog", "explain", DB), json.loads(offline("binlog", "explain", DB, "--json").stdout)
    world.cut_expired()
    people, listed = offline("binlog", "list"), items(offline("binlog", "list", "--json"))
    table = offline("binlog", "explain", DB, "orders")
    off = offline("binlog", "disable", "stock")
    rest = offline("binlog", "list", "--after", "sales/orders", "--json")

    assert (created.returncode, "records are kept for 12h, no more than 100 of them" in created.stdout) == (0, True), (
        created
    )
    assert "first available record is 41" in created.stdout
    assert "expired a cut deletes up to blocked by" in " ".join(explained.stdout.split())
    assert "lisbon, which has acknowledged all up to 2" in " ".join(explained.stdout.split())
    assert "lost after: 1d" in explained.stdout
    assert (as_json["lines"][0]["goes"], as_json["lines"][0]["cut"]["held"]) == (2, {"lisbon": 2})
    assert "lisbon at 2 20" in " ".join(people.stdout.split())
    assert "in its database's" in people.stdout
    assert [(i["db"], i["tbl"], i["kept_records"], i["first"], i["in_database_log"]) for i in listed] == [
        (DB, "", 2, 3, False),
        (DB, "orders", 2, 3, True),
        ("stock", "", 0, 41, False),
    ]
    assert "table orders is in the log of its database" in table.stdout
    assert (off.returncode, "is disabled" in off.stdout) == (0, True)
    assert [(i["db"], i["enabled"], i["ttl_seconds"]) for i in json.loads(rest.stdout)["items"]] == [
        ("stock", False, DAY // 2)
    ]
    by_command = [c for c in reversed(shop.calls.last(9)) if c.source.startswith("cli@")]
    assert [(c.action, c.subject) for c in by_command] == [
        ("binlog set", "stock: ttl 43200, records 100, from 40"),
        ("binlog disable", "stock"),
    ]


def test_a_cut_is_approved_up_to_the_record_that_was_shown(offline: Run, shop: Rig, world: BinlogInstance) -> None:
    waits(world)
    status, held = offline("status"), items(offline("blockers", "--json"))
    doctor = findings(offline)
    listed, unnamed = offline("binlog", "list"), offline("binlog", "approve", DB)
    approved = offline("binlog", "approve", DB, "--upto", "15")
    again = offline("binlog", "approve", DB, "--upto", "15")

    assert "binlogs: 1 log, 15 records kept" in status.stdout
    assert "1 cut waiting for approval" in status.stdout
    assert [(k["held_by"], k["way_out"]) for k in held if "binlog" in k["what"]] == [
        ("approval", "sexton binlog approve sales --upto 15 --instance shop")
    ]
    assert (doctor["binlogs"]["state"], "waiting for approval" in doctor["binlogs"]["detail"]) == ("WARN", True)
    assert "WAITS for approval since" in listed.stdout
    assert "sexton binlog approve sales --upto 15" in listed.stdout
    assert (unnamed.returncode, "--upto" in unnamed.stderr) == (64, True)
    assert (approved.returncode, world.log().awaiting_seq, world.log().approved) == (0, None, 15)
    assert (again.returncode, "no cut of sales waits for approval" in again.stderr) == (1, True)


def test_drop_shows_its_effect_and_refuses_an_unknown_name(offline: Run, shop: Rig, world: BinlogInstance) -> None:
    world.place("t1", "b1", "b2")
    typo = offline("binlog", "drop", "sails", "--yes")
    unconfirmed = offline("binlog", "drop", DB)
    still = world.log().dropped_at
    dropped = offline("binlog", "drop", DB, "--yes")
    listed, explained = offline("binlog", "list"), offline("binlog", "explain", DB)

    assert (typo.returncode, "there is no binlog of sails" in typo.stderr) == (1, True)
    assert (unconfirmed.returncode, "Aborted" in unconfirmed.stderr, still) == (1, True, None)
    for said in (
        "4 records and all binlogs of 2 replicas will be deleted",
        "consumer lisbon of sales no longer blocks deletions",
    ):
        assert said in dropped.stdout
    assert world.replica("t1", "b1").dropped
    assert "DROPPED since" in listed.stdout
    assert "DROPPED since" in explained.stdout


def test_consumers_are_listed_as_blockers_and_removed(offline: Run, shop: Rig, world: BinlogInstance) -> None:
    world.cut_expired()
    held = items(offline("blockers", SHOP, "--json"))
    listed = offline("binlog", "consumers")
    world.pass_time(DAY + STEP)
    lost = offline("binlog", "consumers")
    doctor = findings(offline)
    removed = offline("binlog", "remove-consumer", "lisbon", DB)
    gone = offline("binlog", "remove-consumer", "lisbon", DB)

    (lisbon,) = (k for k in held if k["held_by"] == "consumer lisbon")
    assert (lisbon["what"], lisbon["since_at"] is not None) == ("binlog sales: records after 2", True)
    assert lisbon["way_out"] == "sexton binlog explain sales --instance shop"
    assert ("LOST since" in listed.stdout, "LOST since" in lost.stdout) == (False, True)
    assert (doctor["binlogs"]["state"], "1 consumer LOST" in doctor["binlogs"]["detail"]) == ("FAIL", True)
    assert (removed.returncode, world.service.consumers.all(SHOP)) == (0, [])
    assert (gone.returncode, "no consumer lisbon of sales is registered" in gone.stderr) == (1, True)


def test_refused_clock_is_reported_everywhere(offline: Run, world: BinlogInstance) -> None:
    world.cut_expired()
    world.later(2 * DAY)
    before = offline("binlog", "explain", DB)
    world.cut_expired()
    after, held = offline("binlog", "explain", DB), offline("blockers")
    doctor = findings(offline)
    status = offline("status")

    assert "the next run cuts nothing: the database's clock moved forward" in before.stdout
    assert "it cut nothing: the database's clock moved forward" in after.stdout
    assert held.stdout.count("if it is wrong") == 1
    assert "if it is right: wait; wrong: sexton stop shop" in " ".join(held.stdout.split())
    assert "moved forward" in doctor["binlogs"]["detail"]
    assert "clock refused in 1 instance" in status.stdout


def test_the_journal_and_its_followers_are_shown(offline: Run, world: BinlogInstance) -> None:
    world.cut_expired()
    world.service.configs.drop(SHOP, "other")
    world.service.journal.read(SHOP, 1, "fe-1")
    people, as_json = (
        offline("binlog", "journal"),
        json.loads(offline("binlog", "journal", "--after", "1", "--json").stdout),
    )
    end = offline("binlog", "journal", "--after", "2")
    ahead = offline("binlog", "journal", "--after", "99")
    followers = items(offline("binlog", "followers", "--json"))
    listed = offline("binlog", "followers")
    removed = offline("binlog", "remove-follower", "fe-1")
    gone = offline("binlog", "remove-follower", "fe-1")

    assert "sales deleted up to 2" in people.stdout
    assert [(e["seq"], e["op"]) for e in as_json["entries"]] == [(2, 435)]
    assert "has no entry after 2" in end.stdout
    assert (ahead.returncode, "ends with entry 2" in ahead.stderr) == (1, True)
    assert [(f["name"], f["applied"], f["behind"]) for f in followers] == [("fe-1", 1, 1)]
    assert "fe-1" in listed.stdout
    assert (removed.returncode, world.service.journal.followers(SHOP)) == (0, [])
    assert (gone.returncode, "has no follower fe-1" in gone.stderr) == (1, True)


def test_gc_reports_its_cut_and_is_paused_and_resumed(
    online: Run, world: BinlogInstance, environment: dict[str, str], worker: None
) -> None:
    async def gc(**how: str) -> GcReport | None:
        """Start a GC with a signal, or return the report of the last one."""
        client = await Client.connect(environment["SEXTON_TEMPORAL__ADDRESS"], data_converter=CONVERTER)
        deployment = environment["SEXTON_DEPLOYMENT"]
        id_ = ids.gc_binlog(deployment, SHOP)
        if not how:
            return await client.get_workflow_handle(id_, result_type=GcReport).result()
        order, queue = GcRequest(deployment=deployment, instance=SHOP), ids.control_queue(deployment)
        await client.start_workflow(ids.GC_BINLOG, order, id=id_, task_queue=queue, **how)
        return None

    ran = online("binlog", "gc")
    again = json.loads(online("binlog", "gc", "--json").stdout)
    idle = [online("binlog", word) for word in ("progress", "cancel", "retry")]
    world.service.consumers.acknowledge(SHOP, "lisbon", DB, "", 3)
    asyncio.run(gc(start_signal="pause"))
    paused = [online("binlog", "progress"), online("binlog", "gc")]
    signalled = [online("binlog", word) for word in ("pause", "resume")]
    report = asyncio.run(gc())
    online("instance", "observe", SHOP)
    refused = online("binlog", "gc")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "logs cut: 1\nrecords: 2\nblocked by consumers: 1\n" in ran.stdout
    assert (again["cut"]["records"], again["cut"]["held"]) == (0, 1)
    assert [(i.returncode, "no binlog GC of shop is running" in i.stderr) for i in idle] == [(1, True)] * 3
    assert (paused[0].returncode, "it is paused; to go on: sexton binlog resume" in paused[0].stdout) == (0, True)
    assert (paused[1].returncode, "is already running" in paused[1].stderr) == (1, True)
    assert [(t.returncode, t.stderr) for t in signalled] == [(0, "")] * 2
    assert ["it waits" in signalled[0].stdout, "it continues" in signalled[1].stdout] == [True, True]
    assert report is not None
    assert (report.cut.records, report.cancelled) == (1, False)
    assert (refused.returncode, "nothing was cut: shop only observes" in refused.stdout) == (1, True)


def test_status_is_silent_about_binlogs_if_there_are_none(offline: Run, shop: Rig) -> None:
    assert not findings(offline).keys() & {"binlogs", "replicas"}
    assert "binlogs:" not in offline("status").stdout
    assert "begin with: sexton binlog set" in offline("binlog", "list").stdout
