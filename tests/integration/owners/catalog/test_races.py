"""Rounds race the catalog's writers, and delete finished transactions after the retention: no file is lost."""

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database
from sexton.kernel.errors import SextonError
from sexton.marks.model import Ref
from sexton.owners.catalog.model import LabelTaken, Written, WrongState
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import HOUR, OWN, PREPARED, RETAINED, Shop
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_for_lock_waiter, wait_until_blocked_or_ended
from tests.support.pauses import Pauses
from tests.support.rig import GRACE

EACH = 60
PAUSE_SECONDS = 0.01


def race(shop: Shop, ids: Sequence[str], act: Callable[[Catalog, str], None]) -> set[str]:
    """Do something to each while rounds run, in a connection of its own; return for which it was not refused."""
    won: set[str] = set()
    db, pause = Database.open(shop.url), Pauses(PAUSE_SECONDS)
    catalog = Catalog(db, "shop")

    def go() -> None:
        for id_ in random.sample(list(ids), len(ids)):
            pause()
            while True:
                try:
                    act(catalog, id_)
                    won.add(id_)
                except SextonError:
                    pass
                except OperationalError:  # a lock was waited for too long
                    continue
                break

    thread = threading.Thread(target=go)
    thread.start()
    while thread.is_alive():
        shop.round()
    thread.join()
    shop.round()
    db.close()
    return won


@pytest.mark.slow
def test_a_load_is_committed_with_files_or_aborted_without(shop: Shop) -> None:
    [tablet] = shop.prove_by_clock().table()
    loads = dict(shop.written([tablet]) for _ in range(EACH))
    files = {txn: set(shop.keys(*rowsets)) for txn, rowsets in loads.items()}
    shop.later(HOUR + PREPARED)
    for txn in loads:
        shop.change(shop.t.txns, txn, timeout_at=10**13)

    won = race(shop, list(loads), lambda catalog, txn: catalog.commit(txn, loads[txn]))
    shop.second_pass()

    statuses = {txn: shop.record(shop.t.txns, txn).status for txn in loads}
    assert {txn for txn, status in statuses.items() if status == "VISIBLE"} == won
    assert set(statuses.values()) <= {"VISIBLE", "ABORTED"}
    assert shop.objects() == {key for txn in won for key in files[txn]}
    assert shop.number(shop.t.rowsets) == shop.number(shop.t.rowsets, state="visible") == len(won)


@pytest.mark.slow
def test_a_table_is_either_undropped_with_files_or_deleted(shop: Shop) -> None:
    tables = [f"t{n}" for n in range(EACH)]
    files = {table: set(shop.keys(*shop.loaded(shop.prove_by_clock().table(table, 2)))) for table in tables}
    for table in tables:
        shop.catalog.drop_table(table)
    shop.later(RETAINED)

    won = race(shop, tables, lambda catalog, table: catalog.undrop_table(table))
    shop.second_pass()
    shop.second_pass()

    assert {table for table in tables if shop.record(shop.t.tables, table) is not None} == won
    assert shop.objects() == {key for table in won for key in files[table]}
    assert {r.kind for r in shop.refs()} == {"txn_label"}
    assert shop.catalog_owner.live_objects("shop") == 2 * len(won)


def test_a_partition_is_either_undropped_or_expanded_once(shop: Shop, tmp_path: Path) -> None:
    shop.table(partitions=[f"p{n}" for n in range(EACH)])
    partitions = [f"p{n}" for n in range(EACH)]
    for partition in partitions:
        shop.catalog.drop_partition(partition)
    db = Database.open(shop.url)
    catalog, stop = Catalog(db, "shop"), threading.Event()

    def expand() -> None:
        while not stop.is_set():
            shop.expand_all()

    thread = threading.Thread(target=expand)
    thread.start()
    for partition in partitions[::2]:
        while True:
            try:
                catalog.undrop_partition(partition)
            except OperationalError:
                continue
            break
    stop.set()
    thread.join()
    shop.expand_all()
    db.close()

    parents = {shop.row("tablet", m.id).parent_id for m in shop.marked("tablet")}
    assert parents == set(partitions[1::2]) == {m.id for m in shop.marked("partition")}


@pytest.mark.parametrize("order", [1, -1])
def test_a_late_writer_and_a_removal_do_not_deadlock(shop: Shop, order: int) -> None:
    tablets = shop.table("t", 2)
    rowsets = [output.rowset for output in shop.catalog.prepare_rowsets(shop.catalog.begin("l", HOUR), tablets, "disk")]
    shop.drop("table", later=RETAINED)
    shop.round()
    shop.later(GRACE + 700)
    writing, answers, faults = Database.open(shop.url), list[BaseException](), list[str]()
    removing = threading.Event()

    def before_write(*arguments: object) -> None:
        if "sexton_catalog.rowsets" in str(arguments[2]):
            removing.wait(PATIENCE_SECONDS)

    def write() -> None:
        written = [Written(rowset=rowset, segments=n, bytes=n) for n, rowset in enumerate(rowsets[::order], 1)]
        try:
            Catalog(writing, "shop").write_rowset(*written)
        except (SextonError, OperationalError) as e:
            answers.append(e)

    thread = threading.Thread(target=write)

    def before_removal(*arguments: object) -> None:
        if str(arguments[2]).startswith("DELETE FROM sexton_catalog.rowsets ") and not removing.is_set():
            removing.set()
            wait_until_blocked_or_ended(shop.db, thread)

    event.listen(writing.engine, "before_cursor_execute", before_write)
    event.listen(shop.owners.engine, "before_cursor_execute", before_removal)
    event.listen(shop.owners.engine, "handle_error", lambda context: faults.append(str(context.original_exception)))
    thread.start()
    shop.round()
    thread.join(PATIENCE_SECONDS)
    writing.close()

    assert not faults
    assert [type(answer) for answer in answers] == [WrongState]


def test_a_repeated_write_and_a_commit_of_parts_do_not_deadlock(shop: Shop) -> None:
    [tablet] = shop.table()
    load = shop.catalog.begin("l", HOUR)
    parts = sorted(shop.catalog.begin_sub(load) for _ in range(2))
    first, second = (
        [output.rowset for output in shop.catalog.prepare_rowsets(part, [tablet] * 8, "disk")] for part in parts
    )
    everything = [Written(rowset=rowset, segments=1, bytes=1) for rowset in (*first, *second)]
    shop.catalog.write_rowset(*everything)
    *_, large, held = sorted(first)
    repeated = [written for written in everything if written.rowset in (min(second), large)]
    faults, committing, writing = list[BaseException](), Database.open(shop.url), Database.open(shop.url)

    def run(act: Callable[[], None]) -> None:
        try:
            act()
        except (SextonError, OperationalError) as e:
            faults.append(e)

    commit = threading.Thread(target=run, args=[partial(Catalog(committing, "shop").commit, load)])
    write = threading.Thread(target=run, args=[partial(Catalog(writing, "shop").write_rowset, *repeated)])
    rowset = shop.t.rowsets
    with shop.owners.write() as c:  # as another late writer holds this one rowset
        c.execute(select(rowset.c.id).where(rowset.c.id == held).with_for_update()).all()
        commit.start()
        wait_for_lock_waiter(shop.db)
        write.start()
        wait_for_lock_waiter(shop.db, sessions=2)
    for thread in (commit, write):
        thread.join(PATIENCE_SECONDS)
    committing.close()
    writing.close()

    assert not [fault for fault in faults if isinstance(fault, OperationalError)]


KEPT = OWN["txn_label"] + 1
"""Seconds after which a finished transaction goes."""
LOADS = 40


def test_r21_a_load_is_aborted_only_after_its_timeout(shop: Shop) -> None:
    late, running = shop.catalog.begin("late", 60), shop.catalog.begin("running", 600)
    shop.round()
    before = {shop.record(shop.t.txns, t).status for t in (late, running)}

    shop.round(after=61)

    assert before == {"PREPARED"}
    assert [shop.record(shop.t.txns, t).status for t in (late, running)] == ["ABORTED", "PREPARED"]
    assert shop.refs() == {Ref("txn_label", late)}
    assert shop.catalog.begin("late", 60) != late
    with pytest.raises(LabelTaken):
        shop.catalog.begin("running", 60)


def test_r22_finished_loads_are_deleted_and_running_ones_kept(shop: Shop) -> None:
    tablets = shop.table()
    shop.loaded(tablets)
    aborted = [shop.catalog.begin("shared", HOUR) for _ in range(2) if _abort_all(shop, "shared")]
    part = shop.catalog.begin_sub(aborted[1])
    _abort_all(shop, "shared")
    running = shop.catalog.begin("shared", 10 * KEPT)

    shop.round(after=KEPT)

    assert shop.record(shop.t.txns, part) is None
    assert (shop.number(shop.t.txns), shop.number(shop.t.labels)) == (1, 1)
    assert shop.number(shop.t.labels, label="shared", txn_id=running) == 1
    assert shop.refs() == set()
    assert shop.states([r.id for r in shop.records(shop.t.rowsets)]) == {"visible"}
    with pytest.raises(LabelTaken):
        shop.catalog.begin("shared", 60)


def _abort_all(shop: Shop, label: str) -> bool:
    for txn in shop.records(shop.t.txns):
        if (txn.label, txn.status) == (label, "PREPARED"):
            shop.catalog.abort(txn.id)
    return True


def test_a_finished_load_is_kept_for_its_retention(shop: Shop) -> None:
    shop.loaded(shop.table())

    shop.round(after=KEPT - 600)

    assert (shop.number(shop.t.txns), shop.number(shop.t.labels)) == (1, 1)


@pytest.mark.slow
def test_r23_two_workers_under_one_label_lose_no_load(shop: Shop) -> None:
    others = [Database.open(shop.url) for _ in range(2)]

    def work(db: Database) -> list[str]:
        catalog = Catalog(db, "shop")
        begun: list[str] = []
        while len(begun) < LOADS:
            txn = _patiently(lambda: catalog.begin("shared", HOUR))
            if txn is not None:
                _patiently(lambda txn=txn: catalog.abort(txn))
                begun.append(txn)
        return begun

    with ThreadPoolExecutor(2) as pool:
        begun = [txn for mine in pool.map(work, others) for txn in mine]
    for db in others:
        db.close()
    running = shop.catalog.begin("shared", 10 * KEPT)

    assert len(set(begun)) == 2 * LOADS
    assert shop.number(shop.t.labels, label="shared") == 2 * LOADS + 1
    assert shop.number(shop.t.labels, active=True) == 1
    assert shop.refs() == {Ref("txn_label", txn) for txn in begun}
    shop.round(after=KEPT)
    assert shop.number(shop.t.labels) == shop.number(shop.t.labels, txn_id=running) == 1


def _patiently(call: Callable[[], str | None]) -> str | None:
    """Call until it is done; None where the label is taken this moment."""
    while True:
        try:
            return call()
        except LabelTaken:
            return None
        except OperationalError:  # a lock was waited for too long
            continue
