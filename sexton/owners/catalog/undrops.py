"""Remove the marks of what is undropped, under the guard: no round claims anything of the instance meanwhile.

Not by ``contract.undrop``: whatever an operator discarded is not deleted, and does not prevent that the rest is
restored (docs/adr/0044).
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, Table, and_, delete, exists, or_, select

from sexton import contract
from sexton.marks.model import MarkState
from sexton.owners.catalog import discards, parents
from sexton.owners.catalog.errors import WrongState
from sexton.owners.catalog.records import ensure_found
from sexton.owners.catalog.scope import CatalogTransaction


class Dropped(NamedTuple):
    """Dropped objects of one kind. ``parts``: the kinds of what must be neither claimed nor deleted below them."""

    kind: str
    records: Table
    ids: Sequence[str]
    parts: Sequence[str] = ()


def begin(tx: CatalogTransaction) -> None:
    """Take the guard. It must be the first that the transaction writes."""
    contract.undrop(tx.c, tx.instance, "table", [])


def refuse_claimed(tx: CatalogTransaction, dropped: Dropped) -> None:
    """Check that nothing of the objects is claimed, or deleted since they were dropped.

    Raises:
        contract.Refused: something is; the message names it.
        RecordNotFound: an object has no record.
        WrongState: one is not dropped.
    """
    mark, records = tx.db.t.mark, dropped.records
    # Before anything is locked: a round that removes records holds the locks of claimed marks. Under the guard nothing
    # else becomes claimed.
    _refuse(tx, dropped)
    own_records = select(records).where(tx.in_instance(records.c.id, dropped.ids)).order_by(records.c.id)
    rows = tx.c.execute(own_records.with_for_update()).all()
    # Locked before anything below is read: a round may be marking tablets because of these marks just now.
    is_own = [tx.in_instance(mark.c.id, dropped.ids), mark.c.kind == dropped.kind]
    tx.c.execute(select(mark.c.id).where(*is_own).order_by(mark.c.id).with_for_update()).all()
    _refuse(tx, dropped)
    ensure_found(records, dropped.ids, [row.id for row in rows])
    if standing := [row.id for row in rows if not row.dropped]:
        raise WrongState(f"{dropped.kind} {standing[0]} is not dropped")


def undrop(tx: CatalogTransaction, dropped: Dropped) -> None:
    """Restore objects of which nothing is claimed or deleted; raises as ``refuse_claimed`` does."""
    refuse_claimed(tx, dropped)
    restore(tx, dropped)


def restore(tx: CatalogTransaction, dropped: Dropped) -> None:
    """Remove the marks of objects and of their tablets, and what was discarded below; set the flags of the records."""
    if not dropped.ids:
        return
    mark, records = tx.db.t.mark, dropped.records
    kept = _given_up_by_other(tx, dropped)
    discards.forget_below(tx, dropped.kind, dropped.ids, kept)
    is_waiting = mark.c.state == MarkState.MARKED
    is_tablet = [tx.in_instance(mark.c.parent_id, dropped.ids), mark.c.parent_kind == dropped.kind]
    tx.c.execute(delete(mark).where(*is_tablet, mark.c.kind == "tablet", is_waiting))
    tx.c.execute(delete(mark).where(tx.in_instance(mark.c.id, dropped.ids), mark.c.kind == dropped.kind, is_waiting))
    for other in parents.OTHERS[dropped.kind] if kept else ():
        parents.remember_below(tx, other, kept)
    tx.c.execute(records.update().where(tx.in_instance(records.c.id, dropped.ids)).values(dropped=False))


def _given_up_by_other(tx: CatalogTransaction, dropped: Dropped) -> Sequence[str]:
    """Return the tablets that were discarded below these objects, and that another dropped parent ends without."""
    history = tx.db.t.mark_history
    is_below = [tx.in_instance(history.c.parent_id, dropped.ids), history.c.parent_kind == dropped.kind]
    is_tablet = [history.c.kind == "tablet", history.c.discarded.is_not(None)]
    return parents.given_up_by_other(tx, dropped.kind, tx.ids(select(history.c.id).where(*is_below, *is_tablet)))


def _refuse(tx: CatalogTransaction, dropped: Dropped) -> None:
    reasons = [reason for query, state in _queries(tx, dropped) for reason in _reasons(tx, query, state)]
    if reasons:
        raise contract.Refused(f"SX003 refused: {'; '.join(reasons)[:2000]}")


def _queries(tx: CatalogTransaction, dropped: Dropped) -> Iterator[tuple[Select[Any], str]]:
    """Yield queries of (object, kind, id) of what prevents an undrop, and its state."""
    mark, history, kind, ids = tx.db.t.mark, tx.db.t.mark_history, dropped.kind, dropped.ids
    is_own = [tx.in_instance(mark.c.id, ids), mark.c.kind == kind, mark.c.state != MarkState.MARKED]
    yield select(mark.c.id, mark.c.kind, mark.c.id).where(*is_own), "is claimed"
    was_own = [tx.in_instance(history.c.id, ids), history.c.kind == kind, history.c.discarded.is_(None)]
    yield select(history.c.id, history.c.kind, history.c.id).where(*was_own), "is gone"
    if dropped.parts:
        is_part = [tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == kind, mark.c.kind.in_(dropped.parts)]
        claimed = select(mark.c.parent_id, mark.c.kind, mark.c.id).where(*is_part, mark.c.state != MarkState.MARKED)
        yield claimed, "is claimed"
        was_part = [tx.in_instance(history.c.parent_id, ids), history.c.parent_kind == kind]
        was_part += [
            history.c.kind.in_(dropped.parts),
            history.c.discarded.is_(None),
            _was_claimed_since_drop(tx, kind),
        ]
        yield select(history.c.parent_id, history.c.kind, history.c.id).where(*was_part), "is gone"
    # Discarded when its records had been removed, just before a crash: nothing of it could be restored.
    was_tablet = [tx.in_instance(history.c.parent_id, ids), history.c.parent_kind == kind, history.c.kind == "tablet"]
    tablet = tx.t.tablets
    has_record = exists().where(tablet.c.id == history.c.id, tablet.c.instance == history.c.instance)
    is_lost = [*was_tablet, history.c.discarded.is_not(None), ~has_record]
    yield select(history.c.parent_id, history.c.kind, history.c.id).where(*is_lost), "has lost its records"


def _was_claimed_since_drop(tx: CatalogTransaction, kind: str) -> Any:
    """Return the condition that a row of history was claimed since the drop of its parent."""
    history = tx.db.t.mark_history
    since = []
    for t in (tx.db.t.mark.alias(), history.alias()):
        is_parent = and_(t.c.id == history.c.parent_id, t.c.kind == kind, t.c.instance == history.c.instance)
        since.append(exists().where(is_parent, history.c.claimed_at >= t.c.marked_at))
    return or_(*since)


def _reasons(tx: CatalogTransaction, query: Select[Any], state: str) -> Collection[str]:
    return [
        f"{id_} {state}" if parent == id_ else f"{parent}: its descendant {kind} {id_} {state}"
        for parent, kind, id_ in tx.c.execute(query.limit(20))
    ]
