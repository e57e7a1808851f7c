"""Doris #58459 with the reference catalog: a load commits during the barrier, at each statement of the owner.

Either the commit is in time and all its data stays, or it is refused with SX001, the load is aborted and its data is
deleted.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from sexton.contract import Collected
from sexton.kernel.errors import SextonError
from tests.integration.owners.catalog.shop import FAR_MS, HOUR, PREPARED, Shop
from tests.museum.tables import deleted_ids, marks
from tests.support.eventually import eventually
from tests.support.locks import lock_waiters
from tests.support.rig import GRACE, listing

STATEMENTS = 130
"""More than a round's owner executes before the claim; those that never come are left out."""


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    shop_ = Shop(database_url).register()
    shop_.local(tmp_path / "disk")
    yield shop_
    shop_.close()


class Committers:
    """Loads that are committed side by side, as the owner's n-th statement of a round is about to be executed."""

    def __init__(self, shop: Shop, at: int, *txns: str) -> None:
        self._shop, self._left = shop, at
        self._threads = [threading.Thread(target=self._run, args=(txn,)) for txn in txns]
        self.refused: dict[str, Exception] = {}
        self.came = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        engine = self._shop.owners.engine
        event.listen(engine, "before_cursor_execute", self._statement)
        try:
            yield
        finally:
            event.remove(engine, "before_cursor_execute", self._statement)
            if self.came:
                for thread in self._threads:
                    thread.join()

    def _statement(self, *_: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self.came = True
            for thread in self._threads:
                thread.start()
            eventually("each is committed or waits for the barrier", self._none_runs)

    def _none_runs(self) -> bool:
        return lock_waiters(self._shop.db) >= sum(thread.is_alive() for thread in self._threads)

    def _run(self, txn: str) -> None:
        try:
            self._shop.catalog.commit(txn)
        except SextonError as e:
            self.refused[txn] = e


def load(shop: Shop, tablet: str, name: str) -> tuple[str, str]:
    """Write a load that only the barrier can end; return its transaction and its rowset."""
    txn = shop.catalog.begin(name, HOUR)
    [output] = shop.catalog.prepare_rowsets(txn, [tablet], "disk")
    shop.write(output)
    with shop.db.read() as c:
        ends = shop.db.now(c) + FAR_MS
    shop.change(shop.t.txns, txn, timeout_at=ends)  # not timed out
    return txn, output.rowset


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_doris_58459_load_during_the_barrier_is_whole_or_refused(shop: Shop, first: int) -> None:
    """A load that was precommitted can still be committed, whatever happens."""
    [tablet] = shop.table()

    def status(txn: str) -> str:
        return str(shop.record(shop.t.txns, txn).status)

    outcomes = set()
    visible_files: set[str] = set()
    for n in range(first, STATEMENTS, 2):
        txn, rowset = load(shop, tablet, f"race {n}")
        safe, safe_rowset = load(shop, tablet, f"safe {n}")
        shop.catalog.precommit(safe)
        shop.later(HOUR + PREPARED)
        committers = Committers(shop, n, txn, safe)
        with committers.waiting():
            shop.round()

        visible_files |= set(shop.keys(safe_rowset))
        if safe in committers.refused or not committers.came:
            assert status(safe) == "PRECOMMITTED", n
            shop.catalog.commit(safe)
        assert (status(safe), shop.states([safe_rowset])) == ("VISIBLE", {"visible"}), n
        if not committers.came:
            break
        refused = committers.refused.get(txn)
        if refused is None:
            visible_files |= set(shop.keys(rowset))
            assert (status(txn), shop.states([rowset])) == ("VISIBLE", {"visible"}), n
        else:
            assert status(txn) == "ABORTED", n
            assert isinstance(refused, Collected), n
            assert "SX001" in str(refused), n
        outcomes.add(refused is None)
    shop.later(GRACE + 1)
    shop.round()

    assert not committers.came, "a round has more statements than this test goes through"
    assert outcomes == {True, False}
    assert set(listing(shop.roots["disk"])) == visible_files
    assert deleted_ids(shop).isdisjoint(marks(shop))
