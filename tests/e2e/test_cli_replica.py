"""The command `sexton replica` lists, explains and decommissions replicas."""

import json
import re

import pytest

from sexton.replication.agent.model import CutDone
from sexton.replication.replicas.model import TabletReport
from tests.e2e.conftest import Run, findings, items
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.support.rig import Rig


@pytest.fixture
def world(shop: Rig) -> BinlogInstance:
    """Tablet t1 on b1 (well), b2 (a gap at 3) and b3 (bad); cuts have come to version 5."""
    world = BinlogInstance(shop.db)
    world.configure_log(10)
    world.place("t1", "b1", "b2", "b3")
    world.report_whole("t1", "b1", 5)
    world.report("b2", TabletReport(uid="t1.b2", ranges=((0, 2), (4, 5))))
    world.report("b3", TabletReport(uid="t1.b3", bad=True))
    world.commit(1, world.now - 60_000, orders={"p1": 5})
    world.cut_expired()
    return world


def test_unhealthy_replicas_are_listed_and_explained(offline: Run, world: BinlogInstance) -> None:
    listed, every = (
        offline("replica", "list"),
        items(offline("replica", "list", "--all", "--json")),
    )
    explained = offline("replica", "explain", "t1")
    as_json = json.loads(offline("replica", "explain", "t1", "--json").stdout)

    assert "version 3 is missing" in listed.stdout
    assert "bad" in listed.stdout
    assert "b1" not in listed.stdout
    assert [(r["backend"], r["faults"]) for r in every] == [("b1", ""), ("b2", "version 3 is missing"), ("b3", "bad")]
    assert "the replica on b3 decides: bad; nothing may be deleted" in explained.stdout
    assert re.search("^sales +orders +p1 +b1 ", explained.stdout, re.MULTILINE)
    assert "cuts have reached version 5; 3 replicas wait until it has reported that it is healthy" in explained.stdout
    assert "sexton replica full-copy t1 b3 --reason" in explained.stdout
    assert (as_json["need"], as_json["decides"], [c["need"] for c in as_json["items"]]) == (0, "b3", [6, 3, 0])


def test_replica_marked_full_copy_blocks_no_deletion(offline: Run, shop: Rig, world: BinlogInstance) -> None:
    given_up = offline("replica", "full-copy", "t1", "b3", "--reason", "its disk is gone")
    explained, listed = offline("replica", "explain", "t1"), offline("replica", "list")
    granted = world.granted_cuts("b1")
    offline("replica", "full-copy", "t1", "b2", "--reason", "too")
    offline("replica", "full-copy", "t1", "b1", "--reason", "all of them")
    nobody, held = offline("replica", "explain", "t1"), items(offline("blockers", "--json"))

    assert (given_up.returncode, granted) == (0, {"t1.b1": 2})
    decision = "the replica on b2 decides: version 3 is missing; binlogs and files below version 3 may be deleted"
    assert decision in explained.stdout
    assert "its disk is gone" in listed.stdout
    assert shop.calls.last(3)[-1].subject == "t1 on b3"
    assert "none of its replicas counts" in nobody.stdout
    assert [(k["held_by"], k["what"]) for k in held if k["held_by"] == "replicas"] == [("replicas", "cuts of 1 tablet")]


def test_blocking_replicas_are_grouped_by_backend(offline: Run, world: BinlogInstance) -> None:
    for n in range(2, 30):
        world.place(f"t{n}", "b1", "b3", part=f"p{n}")
    versions = {f"p{n}": 5 for n in range(2, 30)}
    world.commit(2, world.now - 60_000, orders=versions)
    world.later(300)
    world.cut_expired()
    world.later(400)
    listed = items(offline("blockers", "--json"))
    held = [k for k in listed if "replicas" in k["held_by"]]
    silent = {k["why"] for k in listed if k["held_by"].startswith("backend ")}
    status, explained = offline("status"), offline("binlog", "explain", DB)

    assert [(k["held_by"], k["count"]) for k in held] == [
        ("replicas on b1", 29),
        ("replicas on b2", 1),
        ("replicas on b3", 29),
    ]
    assert "sexton replica decommission b3" in held[2]["way_out"]
    assert silent == {"it has never asked for orders to delete"}
    assert held[2]["why"] == "1 bad, 28 without a fresh report"
    assert "3 backends behind (sexton replica backends)" in status.stdout
    assert explained.stdout.count("see: sexton replica explain") == 5
    assert "b3 29 1 bad, 28 without a fresh report" in " ".join(explained.stdout.split())


def test_backends_are_listed_and_decommissioned(offline: Run, world: BinlogInstance) -> None:
    world.place("t9", "b3", part="p9")
    listed = items(offline("replica", "backends", "--json"))
    shown = offline("replica", "backends")
    only = offline("replica", "decommission", "b3", "--yes")
    world.place("t9", "b1", part="p9")
    world.report_whole("t9", "b1", 0)
    world.report_whole("t1", "b1", 9)
    unconfirmed = offline("replica", "decommission", "b3")
    done = offline("replica", "decommission", "b3", "--yes")
    unknown = offline("replica", "decommission", "b3", "--yes")

    assert [(b["backend"], b["copies"], b["behind"], b["bad"], b["missing"]) for b in listed] == [
        ("b1", 1, 1, 0, 0),
        ("b2", 1, 1, 0, 1),
        ("b3", 2, 1, 1, 0),
    ]
    [row] = [line.split() for line in shown.stdout.splitlines() if line.startswith("b2")]
    assert row[-7:-3] == ["1", "1", "0", "1"]  # replicas, to delete, bad, missing
    assert (only.returncode, "no replica of tablet t9 on another backend" in only.stderr) == (1, True)
    assert (unconfirmed.returncode, "1 replica, 1 of them with something to delete" in unconfirmed.stdout) == (1, True)
    assert (done.returncode, "is forgotten, with 1 replica" in done.stdout) == (0, True)
    assert (unknown.returncode, "there is no backend b3" in unknown.stderr) == (1, True)


def test_doctor_reports_silent_backends_and_bad_replicas(offline: Run, world: BinlogInstance) -> None:
    first = findings(offline)["replicas"]
    world.later(1_000)
    world.report_whole("t1", "b1", 5)
    world.service.replicas.full_copy(SHOP, "t1", "b3", "hold limit")
    world.service.replicas.full_copy(SHOP, "t1", "b2", "its disk is gone")
    granted = world.granted_cuts("b1")
    done = [CutDone(uid="t1.b1", version=-1, outcome="quarantined", detail="a key that cannot be read")]
    world.service.sender.acknowledge(SHOP, "b1", done)
    then = findings(offline)["replicas"]

    assert granted == {"t1.b1": 5}
    assert (first["state"], "1 replica bad, 1 with missing versions" in first["detail"]) == ("WARN", True)
    assert "did not pull lately: b1, b2, b3" in first["detail"]
    assert then["state"] == "FAIL"
    for said in (
        "1 replica failed to delete, 1 of them QUARANTINED until an operator has reviewed them, e.g. b1: quarantined",
        "no fresh report from b2, b3",
        "1 replica FULL_COPY_ONLY by the hold limit",
    ):
        assert said in then["detail"]
