"""A writer that is late beside a round that removes its rowsets: the one waits for the other."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database
from sexton.owners.catalog.model import CatalogError, Written, WrongState
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import HOUR, RETAINED, Shop
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_for_lock_waiter, wait_until_blocked_or_ended
from tests.support.rig import GRACE


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop on PostgreSQL, where two transactions may write at once."""
    shop = Shop(database_url).register()
    shop.local(tmp_path / "disk")
    yield shop
    shop.close()


@pytest.mark.parametrize("order", [1, -1])
def test_a_late_writer_and_a_removal_do_not_deadlock(shop: Shop, order: int) -> None:
    tablets = shop.table("t", 2)
    rowsets = [output.rowset for output in shop.catalog.prepare_rowsets(shop.catalog.begin("l", HOUR), tablets, "disk")]
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
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
        except (CatalogError, OperationalError) as e:
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
        except (CatalogError, OperationalError) as e:
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
