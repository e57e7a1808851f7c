"""An undrop while a round marks the tablets of its parent: these marks go, too."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.owners.catalog.due import START, expand_parents
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import FAR_MS, RETAINED, Shop
from tests.integration.owners.catalog.test_copy_races import WAIT_SECONDS

IDS = {"table": "t", "index": "t-i", "partition": "t-p"}


@pytest.fixture
def loaded(postgres_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop on PostgreSQL, where two transactions may write at once."""
    shop = Shop(postgres_url).register()
    shop.local(tmp_path / "disk")
    shop.loaded(shop.table("t", 2))
    yield shop
    shop.close()


def undropped_while_expanded(shop: Shop, kind: str) -> None:
    """Undrop in a connection of its own, while the transaction that marks the tablets is open."""
    undropping, expanding = Database.open(shop.url), Database.open(shop.url)
    undrop = getattr(Catalog(undropping, "shop"), f"undrop_{kind}")
    thread = threading.Thread(target=undrop, args=[IDS[kind]])
    with expanding.write() as c:
        expand_parents(CatalogTransaction(expanding, c, "shop"), kind, FAR_MS, START)
        thread.start()
        time.sleep(WAIT_SECONDS)
    thread.join()
    undropping.close()
    expanding.close()


@pytest.mark.parametrize("kind", IDS)
def test_no_mark_of_a_tablet_is_left(loaded: Shop, kind: str) -> None:
    getattr(loaded.catalog, f"drop_{kind}")(IDS[kind])

    undropped_while_expanded(loaded, kind)

    assert loaded.marked("tablet") == []


def test_a_partition_dropped_later_has_its_retention(loaded: Shop) -> None:
    before = loaded.objects()
    loaded.catalog.drop_table("t")
    undropped_while_expanded(loaded, "table")
    loaded.later(RETAINED)
    loaded.round()
    in_use = loaded.objects()
    loaded.catalog.drop_partition("t-p")
    loaded.round()

    assert (in_use, loaded.objects()) == (before, before)
