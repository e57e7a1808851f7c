"""An undrop of something whose mark was discarded, and another drop of it at the same time."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.owners.catalog.errors import CatalogError, WrongState
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import RETAINED, Shop
from tests.integration.owners.catalog.test_discarded import discard
from tests.support.locks import wait_for_lock_waiter


@pytest.fixture
def given_up(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop on PostgreSQL, where two transactions may write at once; the mark of its dropped table was discarded."""
    shop = Shop(database_url).register()
    shop.local(tmp_path / "disk")
    shop.loaded(shop.table())
    shop.catalog.drop_table("t")
    discard(shop, "table", "t")
    yield shop
    shop.close()


def test_a_table_dropped_again_meanwhile_is_not_undropped(given_up: Shop) -> None:
    answers: list[CatalogError | None] = []
    undropping, dropping = Database.open(given_up.url), Database.open(given_up.url)

    def undrop() -> None:
        try:
            answers.append(Catalog(undropping, "shop").undrop_table("t"))
        except CatalogError as e:
            answers.append(e)

    thread = threading.Thread(target=undrop)
    with dropping.write() as c:
        tables = CatalogTransaction(dropping, c, "shop").t.tables
        c.execute(tables.update().values(dropped=False))
        thread.start()
        wait_for_lock_waiter(given_up.db)
    thread.join()

    assert isinstance(answers[0], WrongState)
    given_up.catalog.drop_table("t")
    given_up.later(RETAINED)
    given_up.round()
    assert given_up.objects() == set()
    undropping.close()
    dropping.close()
