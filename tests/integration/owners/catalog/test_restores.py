"""Restore jobs: a completed one is a record alone; the files of any other one are deleted, then its record."""

import pytest

from sexton import contract
from sexton.marks.model import Reason, Ref
from sexton.owners.catalog.errors import WrongState
from sexton.owners.catalog.model import Restore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.integration.owners.catalog.shop import HOUR, PREPARED, Shop


def restored(shop: Shop, tablets: list[str]) -> Restore:
    """Start a restore, and write its files."""
    restore = shop.catalog.start_restore(tablets, shop.first_vault, HOUR)
    shop.write(*restore.outputs)
    return restore


def test_r48_a_completed_restore_keeps_its_files(shop: Shop) -> None:
    complete(shop)


@pytest.mark.slow
def test_r48_a_completed_restore_keeps_its_files_in_s3(s3_shop: Shop) -> None:
    complete(s3_shop)


def complete(shop: Shop) -> None:
    """Complete a restore, and check that only its record is removed."""
    tablets = shop.table()
    restore = restored(shop, tablets)
    shop.catalog.finish_restore(restore.id)
    files = shop.objects()
    shop.later(HOUR + PREPARED)

    shop.round()

    assert len(files) == 1
    assert shop.objects() == files
    assert shop.states([o.rowset for o in restore.outputs]) == {"visible"}
    assert shop.number(shop.t.restore_jobs) == 0
    assert shop.refs() == set()


@pytest.mark.parametrize("ended_by", ["time", "operator"])
def test_files_of_an_aborted_restore_are_deleted_first(shop: Shop, ended_by: str) -> None:
    tablets = shop.table(tablets=2)
    kept = set(shop.keys(*shop.loaded(tablets)))
    restore = restored(shop, tablets)
    if ended_by == "operator":
        shop.catalog.abort_restore(restore.id)
    shop.later(HOUR)
    shop.round()
    early = (shop.number(shop.t.restore_jobs), len(shop.objects()))
    shop.later(PREPARED)

    shop.round()
    shop.second_pass()

    assert early == (1, 4)
    assert shop.objects() == kept
    assert shop.number(shop.t.restore_jobs) == 0
    with pytest.raises(Exception, match="no restore job"):
        shop.catalog.finish_restore(restore.id)


def test_a_late_finish_is_refused(shop: Shop) -> None:
    restore = restored(shop, shop.table())
    shop.later(HOUR + PREPARED)
    shop.round()

    with pytest.raises((contract.Collected, WrongState)):
        shop.catalog.finish_restore(restore.id)


def test_a_restore_must_be_written_whole(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    restore = shop.catalog.start_restore(tablets, "disk", HOUR)
    shop.write(restore.outputs[0])

    with pytest.raises(WrongState, match="not written yet"):
        shop.catalog.finish_restore(restore.id)
    shop.write(restore.outputs[1])
    shop.catalog.finish_restore(restore.id)
    assert shop.states([o.rowset for o in restore.outputs]) == {"visible"}


def test_a_restore_of_an_unknown_state_keeps_its_files(shop: Shop) -> None:
    restore = restored(shop, shop.table())
    files = shop.objects()
    shop.change(shop.t.restore_jobs, restore.id, state="???")
    shop.later(HOUR + PREPARED)

    shop.round()

    assert shop.objects() == files
    assert {row.reason for row in QuarantineStore(shop.db).list()} == {Reason.OWNER_CORRUPT}


def test_a_restore_ends_though_the_mark_of_a_rowset_was_given_up(shop: Shop) -> None:
    restore = restored(shop, shop.table())
    [output] = restore.outputs
    shop.catalog.abort_restore(restore.id)
    with shop.db.write() as c:
        c.execute(
            shop.db.t.mark.update().where(shop.db.t.mark.c.id == output.rowset).values(quarantined_reason="BAD_KEY")
        )
    QuarantineStore(shop.db).discard("shop", Ref("prepared", output.rowset), "anna")

    shop.round()

    assert shop.number(shop.t.restore_jobs) == 0
    assert len(shop.objects()) == 1
