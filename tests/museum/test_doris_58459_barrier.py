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
from tests.museum.tables import deleted_ids, marks, waits_for_a_lock
from tests.support.eventually import eventually
from tests.support.rig import GRACE, listing

STATEMENTS = 130
"""More than a round's owner executes before the claim; those that never come are left out."""
EVERY_OTHER = pytest.mark.parametrize("first", [1, pytest.param(2, marks=pytest.mark.soak)])


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    shop_ = Shop(database_url).register()
    shop_.local(tmp_path / "disk")
    yield shop_
    shop_.close()


class Committer:
    """A load that is committed once, as the owner's n-th statement of a round is about to be executed."""

    def __init__(self, shop: Shop, txn: str, at: int) -> None:
        self._shop, self._left = shop, at
        self._thread = threading.Thread(target=self._run, args=(txn,))
        self.refused: Exception | None = None

    @property
    def came(self) -> bool:
        return self._thread.ident is not None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        engine = self._shop.owners.engine
        event.listen(engine, "before_cursor_execute", self._statement)
        try:
            yield
        finally:
            event.remove(engine, "before_cursor_execute", self._statement)
            if self.came:
                self._thread.join()

    def _statement(self, *_: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._thread.start()
            eventually(
                "it is committed or waits for the barrier",
                lambda: not self._thread.is_alive() or waits_for_a_lock(self._shop),
            )

    def _run(self, txn: str) -> None:
        try:
            self._shop.catalog.commit(txn)
        except SextonError as e:
            self.refused = e


def status(shop: Shop, txn: str) -> str:
    return str(shop.record(shop.t.txns, txn).status)


def race(shop: Shop, tablet: str, n: int, *, precommitted: bool = False) -> tuple[Committer, str, str]:
    """Let one load fall due and run a round, in which it is committed at the n-th statement."""
    txn = shop.catalog.begin(f"race {n}", HOUR)
    [output] = shop.catalog.prepare_rowsets(txn, [tablet], "disk")
    shop.write(output)
    with shop.db.read() as c:
        ends = shop.db.now(c) + FAR_MS
    shop.change(shop.t.txns, txn, timeout_at=ends)  # not timed out: the barrier must end it
    if precommitted:
        shop.catalog.precommit(txn)
    shop.later(HOUR + PREPARED)
    committer = Committer(shop, txn, n)
    with committer.waiting():
        shop.round()
    return committer, txn, output.rowset


@pytest.mark.slow
@EVERY_OTHER
def test_doris_58459_load_during_the_barrier_is_whole_or_refused(shop: Shop, first: int) -> None:
    [tablet] = shop.table()
    outcomes = set()
    visible_files: set[str] = set()
    for n in range(first, STATEMENTS, 2):
        committer, txn, rowset = race(shop, tablet, n)
        if not committer.came:
            break
        if committer.refused is None:
            visible_files |= set(shop.keys(rowset))
            assert (status(shop, txn), shop.states([rowset])) == ("VISIBLE", {"visible"}), n
        else:
            assert status(shop, txn) == "ABORTED", n
            assert isinstance(committer.refused, Collected), n
            assert "SX001" in str(committer.refused), n
        outcomes.add(committer.refused is None)
    shop.later(GRACE + 1)
    shop.round()

    assert not committer.came, "a round has more statements than this test goes through"
    assert outcomes == {True, False}
    assert set(listing(shop.roots["disk"])) == visible_files
    assert deleted_ids(shop).isdisjoint(marks(shop))


@pytest.mark.slow
@EVERY_OTHER
def test_doris_58459_precommitted_load_can_still_be_committed(shop: Shop, first: int) -> None:
    [tablet] = shop.table()
    visible_files: set[str] = set()
    for n in range(first, STATEMENTS, 2):
        committer, txn, rowset = race(shop, tablet, n, precommitted=True)
        visible_files |= set(shop.keys(rowset))
        if committer.refused is not None or not committer.came:
            assert status(shop, txn) == "PRECOMMITTED", n
            shop.catalog.commit(txn)
        assert (status(shop, txn), shop.states([rowset])) == ("VISIBLE", {"visible"}), n
        if not committer.came:
            break
    shop.later(GRACE + 1)
    shop.round()

    assert not committer.came
    assert set(listing(shop.roots["disk"])) == visible_files
    assert deleted_ids(shop).isdisjoint(marks(shop))
