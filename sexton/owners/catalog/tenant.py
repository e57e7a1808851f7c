"""Drop and undrop a whole instance: everything in its vaults is deleted, then all of its records.

While the mark of the instance exists, no other mark of it is deleted: all objects before any record (docs/adr/0043).
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select, update

from sexton import contract
from sexton.contract import MAX_BYTES
from sexton.database.rows import sum_of
from sexton.marks.model import DueMark, Expansion, InstanceMode, MarkState, Place, Ref
from sexton.marks.sql.whole import is_deleted
from sexton.marks.whole import WHOLE
from sexton.owners.catalog import discards
from sexton.owners.catalog.errors import AlreadyDropped, WrongState
from sexton.owners.catalog.layout import ROOT
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.records import CatalogRecords
from sexton.owners.catalog.scope import CatalogTransaction

WAITS = "the deletion of its whole instance, which was dropped"
WAITS_FOR_CLAIMED = "other marks of its instance that are claimed"


class Tenant(CatalogRecords):
    """The drop of an instance, and its undrop while nothing is claimed."""

    def drop_instance(self) -> None:
        """Drop the instance. After its retention, and an operator's approval, everything of it is deleted."""
        with self._db.write() as c:
            tx = CatalogTransaction(self._db, c, self._instance)
            if tx.is_dropped:
                raise AlreadyDropped(f"instance {self._instance} is dropped already")
            rowset = tx.t.rowsets
            is_visible = [tx.in_instance(rowset.c.id), rowset.c.state == RowsetState.VISIBLE]
            size = tx.c.execute(select(sum_of(rowset.c.bytes, MAX_BYTES)).where(*is_visible)).scalar_one()
            new_mark = contract.NewMark(id=WHOLE.id, vault=None, prefix=ROOT, bytes=size)
            try:
                discards.mark(tx, WHOLE.kind, [new_mark])
            except contract.AlreadyMarked as e:  # at the same time, by another caller
                raise AlreadyDropped(f"instance {self._instance} is dropped already") from e

    def undrop_instance(self) -> None:
        """Restore the instance as it was.

        Raises:
            contract.Refused: its deletion has begun.
            WrongState: it was not dropped, or is deleted.
        """
        with self._db.write() as c:
            tx = CatalogTransaction(self._db, c, self._instance)
            if not tx.is_dropped:
                raise WrongState(f"instance {self._instance} is not dropped")
            if is_deleted(self._db, c, self._instance):
                raise WrongState(tx.ending)
            contract.undrop(c, self._instance, WHOLE.kind, [WHOLE.id])


def waiting(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the marks that wait for the deletion of the whole instance; those that are claimed are finished first."""
    mark = tx.db.t.mark
    is_claimed = [tx.in_instance(mark.c.id, [m.id for m in marks]), mark.c.state == MarkState.CLAIMED]
    claimed = {Ref(*row) for row in tx.c.execute(select(mark.c.kind, mark.c.id).where(*is_claimed))}
    return {m.ref: Expansion(waits=WAITS) for m in marks if m.ref != WHOLE and m.ref not in claimed}


def expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the folder of the catalog in every vault of the instance."""
    mark, vault = tx.db.t.mark, tx.db.t.vault
    is_claimed = [mark.c.instance == tx.instance, mark.c.state == MarkState.CLAIMED, mark.c.kind != WHOLE.kind]
    if tx.c.execute(select(mark.c.id).where(*is_claimed).limit(1)).first() is not None:
        return {m.ref: Expansion(waits=WAITS_FOR_CLAIMED) for m in marks}
    vaults = tx.ids(select(vault.c.name).where(vault.c.instance == tx.instance).order_by(vault.c.name))
    places = tuple(Place(vault=name, prefix=ROOT) for name in vaults)
    return {m.ref: Expansion(places=places) for m in marks}


def forget(tx: CatalogTransaction) -> None:
    """Remove all records of the instance, and its marks: their objects are deleted. Nothing is left of it."""
    mark, instance = tx.db.t.mark, tx.db.t.instance
    tx.c.execute(delete(mark).where(mark.c.instance == tx.instance, mark.c.state != MarkState.CLAIMED))
    tx.c.execute(update(instance).where(instance.c.id == tx.instance).values(mode=InstanceMode.DELETED))
    for table in tx.t.metadata.sorted_tables:
        tx.c.execute(table.delete().where(table.c.instance == tx.instance))
