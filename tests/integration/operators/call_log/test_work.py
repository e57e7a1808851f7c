"""Rounds, plans and checks that begin are in the log of calls, from whomever the order came."""

import pytest

from sexton.database.engine import AWAY
from sexton.operators.call_log.model import CallRecord
from sexton.replication.binlog.model import LogRetention
from tests.support.refusing import refuse_inserts
from tests.support.rig import Rig, stores_of


def work(rig: Rig) -> list[CallRecord]:
    return [c for c in reversed(rig.operators.calls.last(20)) if c.source.startswith("worker@")]


def test_every_round_that_begins_is_logged_with_its_run(rig: Rig) -> None:
    opened = rig.rounds.open("shop", "run-of-a-stranger", None, rig.policy)
    again = rig.rounds.open("shop", "run-of-a-stranger", None, rig.policy)
    rig.rounds.plan("shop", rig.policy, "")

    assert again.round == opened.round
    begun, sender = (
        f"round {opened.round}, run run-of-a-stranger",
        "requested by: see SextonRequestedBy of its workflow",
    )
    assert [(c.who, c.action, c.instance, c.subject, c.outcome, c.reason) for c in work(rig)] == [
        ("worker", "round", "shop", begun, "ok", sender),
        ("worker", "plan", "shop", "", "ok", sender),
    ]


def test_no_round_begins_that_cannot_be_logged(rig: Rig) -> None:
    rig.rounds.open("shop", "first", None, rig.policy)
    refuse_inserts(rig.db, "call")
    with pytest.raises(AWAY):
        rig.rounds.open("shop", "second", None, rig.policy)
    with rig.db.read() as c:
        runs = c.execute(rig.db.t.round.select()).all()

    assert [row.run_id for row in runs] == ["first"]


def test_every_check_that_begins_is_logged_once(rig: Rig) -> None:
    for _ in range(2):
        begun = rig.runs.begin("shop", "run-7", "bob")

    assert [(c.action, c.subject, c.reason) for c in work(rig)] == [
        ("check", f"check {begun.id}, run run-7", "requested by bob, as the order has it")
    ]


def test_every_binlog_run_and_purge_is_logged(rig: Rig) -> None:
    deployment = stores_of(rig.db)
    deployment.binlogs.configs.put("shop", "sales", "", LogRetention(ttl_seconds=60))

    deployment.binlogs.schedule.begin_run("shop")
    deployment.wal.rounds.purge("orders")

    assert [(c.action, c.instance, c.subject) for c in work(rig)] == [
        ("binlog gc", "shop", ""),
        ("wal purge", "", "orders"),
    ]
