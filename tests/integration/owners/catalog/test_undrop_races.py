"""An undrop while a round marks the tablets of its parent, whose marks go, too, or removes its records."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sexton.owners.catalog.due import START, expand_parents
from sexton.owners.catalog.scope import CatalogTransaction
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from sexton import contract
from sexton.database.engine import Database
from sexton.owners.catalog.model import CatalogError
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import FAR_MS, RETAINED, Shop
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_until_blocked_or_ended
from tests.support.rig import GRACE

IDS = {"table": "t", "index": "t-i", "partition": "t-p"}


@pytest.fixture
def loaded(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop on PostgreSQL, where two transactions may write at once."""
    shop = Shop(database_url).register()
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
        wait_until_blocked_or_ended(shop.db, thread)
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


@pytest.mark.parametrize("kind", IDS)
def test_what_a_round_removes_just_now_is_refused_at_once(loaded: Shop, kind: str) -> None:
    getattr(loaded.catalog, f"drop_{kind}")(IDS[kind])
    loaded.later(RETAINED)
    loaded.round()
    loaded.later(GRACE + 700)
    undropping, answers, faults = Database.open(loaded.url), list[BaseException](), list[str]()

    def undrop() -> None:
        try:
            getattr(Catalog(undropping, "shop"), f"undrop_{kind}")(IDS[kind])
        except (CatalogError, contract.ContractError, OperationalError) as e:
            answers.append(e)

    thread = threading.Thread(target=undrop)
    record = {"table": "tables", "index": "indexes", "partition": "partitions"}[kind]

    def before(*arguments: object) -> None:
        if str(arguments[2]).startswith(f"DELETE FROM sexton_catalog.{record} ") and not thread.ident:
            thread.start()
            wait_until_blocked_or_ended(loaded.db, thread)

    event.listen(loaded.owners.engine, "before_cursor_execute", before)
    event.listen(loaded.owners.engine, "handle_error", lambda context: faults.append(str(context.original_exception)))
    for _ in range(2):  # a parent ends in the round after its tablets
        if not thread.ident:
            loaded.round()
    thread.join(PATIENCE_SECONDS)
    undropping.close()

    assert not faults
    assert [type(answer) for answer in answers] == [contract.Refused]
