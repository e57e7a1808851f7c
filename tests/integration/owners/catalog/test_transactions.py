"""Rounds delete finished transactions with their labels after the retention, and abort late ones."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database
from sexton.marks.model import Ref
from sexton.owners.catalog.model import LabelTaken
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import HOUR, OWN, Shop

KEPT = OWN["txn_label"] + 1
"""Seconds after which a finished transaction goes."""
LOADS = 40


def test_r21_a_load_is_aborted_only_after_its_timeout(shop: Shop) -> None:
    late, running = shop.catalog.begin("late", 60), shop.catalog.begin("running", 600)
    shop.round()
    before = {shop.record(shop.t.txns, t).status for t in (late, running)}
    shop.later(61)

    shop.round()

    assert before == {"PREPARED"}
    assert [shop.record(shop.t.txns, t).status for t in (late, running)] == ["ABORTED", "PREPARED"]
    assert shop.refs() == {Ref("txn_label", late)}
    assert shop.catalog.begin("late", 60) != late
    with pytest.raises(LabelTaken):
        shop.catalog.begin("running", 60)


@pytest.mark.slow
def test_r22_finished_loads_are_deleted_and_running_ones_kept(shop: Shop) -> None:
    tablets = shop.table()
    shop.loaded(tablets)
    aborted = [shop.catalog.begin("shared", HOUR) for _ in range(2) if _abort_all(shop, "shared")]
    part = shop.catalog.begin_sub(aborted[1])
    _abort_all(shop, "shared")
    running = shop.catalog.begin("shared", 10 * KEPT)
    shop.later(KEPT)

    shop.round()

    assert shop.record(shop.t.txns, part) is None
    assert (shop.number(shop.t.txns), shop.number(shop.t.labels)) == (1, 1)
    assert shop.number(shop.t.labels, label="shared", txn_id=running) == 1
    assert shop.refs() == set()
    assert shop.states([r.id for r in _rowsets(shop)]) == {"visible"}
    with pytest.raises(LabelTaken):
        shop.catalog.begin("shared", 60)


def _abort_all(shop: Shop, label: str) -> bool:
    with shop.db.read() as c:
        running = [r.id for r in c.execute(shop.t.txns.select()) if (r.label, r.status) == (label, "PREPARED")]
    for txn in running:
        shop.catalog.abort(txn)
    return True


def _rowsets(shop: Shop) -> list[object]:
    with shop.db.read() as c:
        return list(c.execute(shop.t.rowsets.select()))


def test_a_finished_load_is_kept_for_its_retention(shop: Shop) -> None:
    shop.loaded(shop.table())
    shop.later(KEPT - 600)

    shop.round()

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
    shop.later(KEPT)
    shop.round()
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
