"""The log of calls: rows that never change, in the order of their numbers, also of rounds, plans and checks."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sexton.database.engine import AWAY
from sexton.kernel.errors import SextonError
from sexton.operators.call_log import CallRecord, CallStore, append
from sexton.replication.binlog.model import LogRetention
from tests.support.refusing import refuse_inserts
from tests.support.rig import DAY, Rig, stores_of

CALL = CallRecord(who="ada", source="cli@here", action="stop", instance="shop", reason="a restore, \u202eat noon\n")


@pytest.fixture
def calls(rig: Rig) -> CallStore:
    return rig.operators.calls


def fill(calls: CallStore, count: int) -> list[int]:
    return [calls.append(CALL.model_copy(update={"subject": str(n)})) for n in range(count)]


def test_outcomes_are_rows_of_their_own(calls: CallStore) -> None:
    def fail() -> None:
        with calls.recorded(CALL):
            during.extend(calls.last(1))
            raise KeyError

    during: list[CallRecord] = []
    with pytest.raises(KeyError):
        fail()
    [row, end] = calls.rows(0, 10)

    assert [c.outcome for c in during] == ["asked"]
    assert [c.outcome for c in calls.last(9)] == ["FAILED"]
    assert (row.outcome, row.begun_id, end.outcome, end.begun_id) == ("asked", None, "FAILED", row.id)
    assert row.role == "postgres"


def test_a_routine_call_is_a_row_only_if_it_is_refused(calls: CallStore) -> None:
    def refuse() -> None:
        with calls.routine(CALL):
            raise SextonError

    with calls.routine(CALL):
        pass
    before = calls.newest()
    for _ in range(2):
        with pytest.raises(SextonError):
            refuse()

    assert before == 0
    assert [c.outcome for c in calls.last(9)] == ["SEXTON_ERROR"] * 2


def test_any_text_is_stored_unless_it_is_rolled_back(rig: Rig, calls: CallStore) -> None:
    with rig.db.engine.connect() as c:
        transaction = c.begin()
        append(rig.db, c, CALL)
        transaction.rollback()
    assert calls.rows(0, 9) == []

    calls.append(CALL.model_copy(update={"subject": "a\0b\ud800" + "x" * 600}))

    assert calls.last(1)[0].subject == "ab?" + "x" * 497


def test_only_rows_older_than_400_days_are_deleted(rig: Rig, calls: CallStore) -> None:
    old = fill(calls, 3)
    rig.update("call", {"id": old[1]}, at=10**14)  # the clock was wrong once
    rig.later(401 * DAY)
    young = fill(calls, 4)

    assert (calls.forget(), calls.forget()) == (2, 0)
    assert [row.id for row in calls.rows(0, 9)] == [old[1], *young]


def test_a_reader_of_concurrent_writers_misses_no_row(rig: Rig, calls: CallStore) -> None:
    barrier = threading.Barrier(8)

    def write(_: int) -> None:
        barrier.wait()
        for _ in range(15):
            with CallStore(rig.db).recorded(CALL):
                pass

    read: list[int] = []
    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write, n) for n in range(8)]
        while not all(writer.done() for writer in writers):
            read += [row.id for row in calls.rows(read[-1] if read else 0, 999)]
    for writer in writers:
        writer.result()
    read += [row.id for row in calls.rows(read[-1], 999)]

    assert len(read) == 8 * 15 * 2
    assert read == [row.id for row in calls.rows(0, 999)]


def work(rig: Rig) -> list[CallRecord]:
    return [c for c in reversed(rig.operators.calls.last(20)) if c.source.startswith("worker@")]


def test_every_round_that_begins_is_logged_or_does_not_begin(rig: Rig) -> None:
    opened = rig.rounds.open("shop", "run-of-a-stranger", None, rig.policy)
    again = rig.rounds.open("shop", "run-of-a-stranger", None, rig.policy)
    rig.rounds.plan("shop", rig.policy, "")

    assert again.round == opened.round
    begun = f"round {opened.round}, run run-of-a-stranger"
    sender = "requested by: see SextonRequestedBy of its workflow"
    assert [(c.who, c.action, c.instance, c.subject, c.outcome, c.reason) for c in work(rig)] == [
        ("worker", "round", "shop", begun, "ok", sender),
        ("worker", "plan", "shop", "", "ok", sender),
    ]
    refuse_inserts(rig.db, "call")
    with pytest.raises(AWAY):
        rig.rounds.open("shop", "second", None, rig.policy)
    assert (rig.count("round"), rig.count("round", run_id="run-of-a-stranger")) == (1, 1)


def test_every_check_binlog_run_and_purge_is_logged_once(rig: Rig) -> None:
    deployment = stores_of(rig.db)
    deployment.binlogs.configs.put("shop", "sales", "", LogRetention(ttl_seconds=60))
    for _ in range(2):
        begun = rig.runs.begin("shop", "run-7", "bob")

    deployment.binlogs.schedule.begin_run("shop")
    deployment.wal.rounds.purge(["orders"])

    assert [(c.action, c.instance, c.subject, c.reason) for c in work(rig)][:1] == [
        ("check", "shop", f"check {begun.id}, run run-7", "requested by bob, as the order has it"),
    ]
    assert [(c.action, c.instance, c.subject) for c in work(rig)][1:] == [
        ("binlog gc", "shop", ""),
        ("wal purge", "", "orders"),
    ]
