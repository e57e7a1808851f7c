"""A copy job that begins while another one ends: one of them is first, and no file of a running job is deleted."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from sexton.database.engine import Database
from sexton.owners.catalog import copies
from sexton.owners.catalog.errors import CatalogError, WrongState
from sexton.owners.catalog.model import CopyJob
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import HOUR, Shop
from tests.integration.owners.catalog.test_stages import EXPIRED, commit, copied, upload
from tests.support.locks import wait_for_lock_waiter, wait_until_blocked_or_ended

"""Time in which the other transaction certainly waits for a lock."""


@pytest.fixture
def staged(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop on PostgreSQL, where two transactions may write at once, with two tables and a stage."""
    shop = Shop(database_url).register()
    shop.local(tmp_path / "disk")
    shop.table()
    shop.table("other")
    shop.catalog.create_stage("u1", "disk")
    yield shop
    shop.close()


class Begin:
    """Begins a copy job in a thread and a connection of its own."""

    def __init__(self, shop: Shop, file: str, table: str = "other") -> None:
        self.result: CopyJob | CatalogError | None = None
        self._db, self._order = Database.open(shop.url), ("u1", table, [file], HOUR)
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.result = Catalog(self._db, "shop").begin_copy(*self._order)
        except CatalogError as e:
            self.result = e
        self._db.close()


@contextmanager
def finishing(shop: Shop, job: str) -> Iterator[None]:
    """Finish a copy job in a transaction that is open as long as the context."""
    db = Database.open(shop.url)
    with db.write() as c:
        copies.finish(CatalogTransaction(db, c, "shop"), [job])
        yield
    db.close()


def test_a_job_that_begins_during_a_commit_is_refused(staged: Shop) -> None:
    [file] = upload(staged, "a")
    job, begin = copied(staged, [file]), Begin(staged, file.id)

    with finishing(staged, job.id):
        begin.thread.start()
        wait_for_lock_waiter(staged.db)
    begin.thread.join()

    assert isinstance(begin.result, WrongState)
    staged.round()
    assert staged.objects() == set()
    assert {ref.kind for ref in staged.refs()} <= {"txn_label"}


def test_a_commit_during_a_begin_leaves_no_mark_behind(staged: Shop) -> None:
    [file] = upload(staged, "a")
    first = copied(staged, [file])
    end = threading.Thread(target=commit, args=(staged, first))

    def commit_meanwhile(*arguments: object) -> None:
        if "INSERT INTO sexton_catalog.copy_jobs" in str(arguments[2]):
            end.start()
            wait_until_blocked_or_ended(staged.owners, end)

    event.listen(staged.db.engine, "before_cursor_execute", commit_meanwhile)
    second = staged.catalog.begin_copy("u1", "other", [file.id], HOUR)
    event.remove(staged.db.engine, "before_cursor_execute", commit_meanwhile)
    end.join()

    staged.round()
    during = staged.objects()
    commit(staged, second)
    staged.round()
    staged.later(EXPIRED)
    staged.round()

    assert during == {file.key}
    assert staged.objects() == set()
    assert {ref.kind for ref in staged.refs()} <= {"txn_label"}
    assert staged.number(staged.t.staged_files) == 0


def test_two_jobs_of_one_file_and_table_share_it_once(staged: Shop) -> None:
    [file] = upload(staged, "a")
    begins = [Begin(staged, file.id, "t") for _ in range(6)]

    for begin in begins:
        begin.thread.start()
    for begin in begins:
        begin.thread.join()

    jobs = [begin.result.files for begin in begins if isinstance(begin.result, CopyJob)]
    assert sorted(jobs) == [()] * 5 + [(file.id,)]
