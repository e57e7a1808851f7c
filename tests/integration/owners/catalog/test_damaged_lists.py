"""A damaged file list of a tablet stops no other tablet of its chunk, whose rowsets were claimed with it."""

import pytest
from sqlalchemy import update

from sexton.marks.model import Reason, Ref
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from tests.integration.owners.catalog.shop import RETAINED, Shop
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.refusing import refusing


@pytest.mark.parametrize("discarded_first", [True, False])
def test_a_tablet_is_settled_beside_a_damaged_list(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, discarded_first: bool
) -> None:
    tablet, refused = shop.table(tablets=2)
    rowset, other = shop.loaded([tablet, refused])
    [key] = shop.keys(other)
    shop.catalog.drop_rowset(rowset)
    shop.catalog.drop_table("t")
    shop.sql("UPDATE {}mark SET quarantined_reason = 'BAD_KEY' WHERE id = :id", id=rowset)  # claimed with its tablet
    shop.later(RETAINED)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing(key))
        shop.round()
    with shop.db.write() as c:
        c.execute(update(shop.db.t.file_list).values(results=b"\x00"))
    shop.round()
    reason = shop.row("tablet", refused).quarantined_reason
    store, damaged = QuarantineStore(shop.db), Ref("tablet", refused)

    if discarded_first:
        store.discard("shop", damaged, "its files stay")
    shop.second_pass()
    if not discarded_first:
        store.discard("shop", damaged, "its files stay")

    assert reason == Reason.FILES_UNREADABLE
    assert (shop.row("tablet", tablet), shop.row("dropped", rowset)) == (None, None)
    assert (shop.objects(), shop.count("file_list")) == ({key}, 0)
    protect(shop, "copy", key)
