"""The log of calls is a chain: a row that was changed, removed or inserted is named, whatever happened meanwhile."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete, insert, select, update

from sexton.kernel.crash_points import installed
from sexton.operators.call_log.chain import append
from sexton.operators.call_log.model import CallRecord, CallRow, ChainReport
from sexton.operators.call_log.store import CallStore
from tests.support.eventually import eventually
from tests.support.rig import DAY, Rig

CALL = CallRecord(who="ada", source="cli@here", action="stop", instance="shop", reason="a restore, \u202eat noon\n")
WRITER = """
import sys
from sexton.database.engine import Database
from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore

calls = CallStore(Database.open(sys.argv[1]))
print("ready", flush=True)
while True:
    with calls.recorded(CallRecord(who="writer", source="test", action="start")):
        pass
"""


@pytest.fixture
def calls(rig: Rig) -> CallStore:
    return rig.operators.calls


def fill(calls: CallStore, count: int = 5) -> None:
    for n in range(count):
        calls.append(CALL.model_copy(update={"subject": str(n)}))


def fault(report: ChainReport) -> tuple[int, str] | None:
    return None if report.fault is None else (report.fault.row, report.fault.what)


def change(rig: Rig, row: int, *, rehash: bool = False, **values: object) -> None:
    """Change a row as a party with the database's login could; ``rehash``: with a hash that fits its new content."""
    t = rig.db.t.call
    with rig.db.write() as c:
        c.execute(update(t).where(t.c.id == row).values(**values))
        if rehash:
            changed = CallRow(**c.execute(select(t).where(t.c.id == row)).one()._mapping)
            c.execute(update(t).where(t.c.id == row).values(hash=changed.digest()))


def remove(rig: Rig, *rows: int) -> None:
    t = rig.db.t.call
    with rig.db.write() as c:
        c.execute(delete(t).where(t.c.id.in_(rows)))


def insert_row(rig: Rig, id_: int, previous: str = "0" * 64) -> None:
    row = CallRow(**CALL.model_dump(exclude={"id", "at"}), id=id_, at=1, previous=previous)
    with rig.db.write() as c:
        c.execute(insert(rig.db.t.call).values(**row.model_copy(update={"hash": row.digest()}).model_dump()))


TAMPERED: dict[str, tuple[Callable[[Rig], None], tuple[int, str]]] = {
    "who": (lambda rig: change(rig, 3, who="bob"), (3, "was changed")),
    "when": (lambda rig: change(rig, 3, at=7_000), (3, "was changed")),
    "outcome": (lambda rig: change(rig, 3, outcome="ok"), (3, "was changed")),
    "count": (lambda rig: change(rig, 3, times=9), (3, "was changed")),
    "link": (lambda rig: change(rig, 3, begun_id=1), (3, "was changed")),
    "hash": (lambda rig: change(rig, 3, hash="f" * 64), (3, "was changed")),
    "with its hash": (lambda rig: change(rig, 3, rehash=True, who="bob"), (3, "was changed, and its hash with it")),
    "first": (lambda rig: change(rig, 1, rehash=True, who="bob"), (1, "was changed, and its hash with it")),
    "last": (lambda rig: change(rig, 5, rehash=True, who="bob"), (5, "was changed, and its hash with it")),
    "removed": (lambda rig: remove(rig, 3), (3, "was removed")),
    "first removed": (lambda rig: remove(rig, 1, 2), (1, "was removed")),
    "last removed": (lambda rig: remove(rig, 4, 5), (4, "was removed")),
    "all removed": (lambda rig: remove(rig, 1, 2, 3, 4, 5), (1, "was removed")),
    "inserted before": (lambda rig: insert_row(rig, 0), (0, "was inserted")),
    "inserted behind": (lambda rig: insert_row(rig, 6), (6, "was inserted")),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_verify_names_the_first_row_that_does_not_fit(rig: Rig, calls: CallStore, name: str) -> None:
    fill(calls)
    whole = calls.verify()
    tamper, expected = TAMPERED[name]

    tamper(rig)

    assert (fault(whole), whole.rows, whole.first, whole.last) == (None, 5, 1, 5)
    assert fault(calls.verify()) == expected


def test_verify_can_begin_at_the_newest_rows(rig: Rig, calls: CallStore) -> None:
    fill(calls)
    change(rig, 2, who="bob")

    newest, more = calls.verify(3), calls.verify(4)
    remove(rig, 2)

    assert (fault(newest), newest.first, newest.rows) == (None, 3, 3)
    assert fault(more) == (2, "was changed")
    assert fault(calls.verify(3)) == (2, "was removed")


def test_an_empty_log_is_whole(calls: CallStore) -> None:
    report = calls.verify()

    assert (fault(report), report.rows) == (None, 0)


def test_outcomes_are_rows_of_their_own(rig: Rig, calls: CallStore) -> None:
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


def test_trimmed_rows_leave_a_chain_that_can_be_verified(rig: Rig, calls: CallStore) -> None:
    fill(calls, 3)
    rig.later(401 * DAY)
    fill(calls, 4)

    trimmed, again = calls.forget(), calls.forget()
    report = calls.verify()
    remove(rig, 4)

    assert (trimmed, again) == (3, 0)
    assert (fault(report), report.first, report.rows) == (None, 4, 4)
    assert fault(calls.verify()) == (4, "was removed")


def test_trimming_stops_at_the_first_young_row(rig: Rig, calls: CallStore) -> None:
    fill(calls, 3)
    change(rig, 2, at=10**14)  # the clock was wrong once
    rig.later(401 * DAY)

    assert calls.forget() == 1
    assert [row.id for row in calls.rows(0, 9)] == [2, 3]


def test_concurrent_writers_append_one_chain(rig: Rig, calls: CallStore) -> None:
    barrier = threading.Barrier(8)

    def write(_: int) -> None:
        barrier.wait()
        for _ in range(15):
            with CallStore(rig.db).recorded(CALL):
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    report = calls.verify()

    assert (fault(report), report.rows) == (None, 8 * 15 * 2)


def test_killed_writers_leave_a_whole_chain(rig: Rig, calls: CallStore) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, rig.url], stdout=subprocess.PIPE, env=os.environ | {})
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    before = calls.newest()
    eventually("40 calls are logged", lambda: calls.newest() >= before + 40)
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    fill(calls, 2)

    assert fault(calls.verify()) is None


def test_a_crash_between_row_and_head_leaves_neither(calls: CallStore) -> None:
    def die(name: str) -> None:
        assert name == "call.appended"
        raise KeyboardInterrupt

    fill(calls, 2)
    with pytest.raises(KeyboardInterrupt), installed(die):
        fill(calls, 1)
    fill(calls, 1)
    report = calls.verify()

    assert (fault(report), report.rows) == (None, 3)


def test_a_transaction_that_rolls_back_leaves_no_row(rig: Rig, calls: CallStore) -> None:
    with rig.db.engine.connect() as c:
        transaction = c.begin()
        append(rig.db, c, CALL)
        transaction.rollback()

    assert calls.rows(0, 9) == []
    assert fault(calls.verify()) is None


def test_repeated_refusals_are_one_row_with_a_count(calls: CallStore) -> None:
    for _ in range(50):
        calls.refused(CALL, "FORBIDDEN")
    stored = calls.rows(0, 99)
    calls.store_counts(all_=True)

    assert len(stored) == 1
    assert len(calls.rows(0, 99)) == 2
    assert [(c.outcome, c.times) for c in calls.last(9)] == [("FORBIDDEN", 50)]
