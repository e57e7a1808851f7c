"""A writer that is late beside a round that removes its rowsets: the one waits for the other."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database
from sexton.owners.catalog.errors import CatalogError, WrongState
from sexton.owners.catalog.model import Written
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import HOUR, RETAINED, Shop
from tests.support.rig import GRACE


@pytest.fixture
def shop(postgres_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop on PostgreSQL, where two transactions may write at once."""
    shop = Shop(postgres_url).register()
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
    removing, waits = threading.Event(), threading.Event()

    def before_write(*arguments: object) -> None:
        if "sexton_catalog.rowsets" in str(arguments[2]) and not waits.is_set():
            removing.wait(20)

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
            waits.wait(0.5)

    event.listen(writing.engine, "before_cursor_execute", before_write)
    event.listen(shop.owners.engine, "before_cursor_execute", before_removal)
    event.listen(shop.owners.engine, "handle_error", lambda context: faults.append(str(context.original_exception)))
    thread.start()
    shop.round()
    thread.join(20)
    writing.close()

    assert not faults
    assert [type(answer) for answer in answers] == [WrongState]
