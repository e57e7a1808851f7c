"""Loads: begin under a label, prepare before the first file, write, then commit or abort; each is one transaction."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, update

from sexton import contract
from sexton.database.contract_errors import check_text
from sexton.kernel.errors import BadInput
from sexton.owners.catalog import labels
from sexton.owners.catalog.errors import AlreadyThere, LabelTaken, RecordNotFound, WrongState
from sexton.owners.catalog.model import MOST_CHARACTERS, TXN, Output, RowsetState, TxnStatus, Written
from sexton.owners.catalog.records import CatalogRecords, add, check_seconds, check_some, ensure_found, new_id
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.writing import prepare, publish


class Loads(CatalogRecords):
    """Loads and the rowsets that they write."""

    def begin(self, label: str, timeout_seconds: int) -> str:
        """Begin a load under a label; return its id.

        Raises:
            LabelTaken: another load with this label runs or is visible; an aborted one does not count.
            BadInput: the timeout is not above 0 and at most 366 days, or the label cannot be stored as text.
        """
        check_text(label)
        if not 0 < len(label) <= MOST_CHARACTERS:
            raise BadInput(f"the label has {len(label):,} characters; it must have 1 to {MOST_CHARACTERS}")
        check_seconds("timeout_seconds", timeout_seconds)
        with self._write() as tx:
            txn = _begin(tx, label, tx.db.now(tx.c) + timeout_seconds * 1000, None)
            try:
                add(tx, tx.t.labels, [{"txn_id": txn, "label": label, "active": True}])
            except AlreadyThere as e:
                raise LabelTaken(
                    f"a load with label {label} runs or is visible; if it is another load, use another label"
                ) from e
            return txn

    def begin_sub(self, parent: str) -> str:
        """Begin a part of a load, which is committed, aborted and timed out with the load; return its id."""
        with self._write() as tx:
            row = _locked(tx, parent)
            _expect(row, TxnStatus.PREPARED)
            return _begin(tx, None, row.timeout_at, parent)

    def prepare_rowsets(self, txn: str, tablets: Sequence[str], vault: str) -> list[Output]:
        """Announce a rowset for each of the tablets (a tablet may occur twice) and return where to write its files.

        No file may be written before this has returned.
        """
        with self._write() as tx:
            row = _locked(tx, txn, allow_part=True)
            _expect(row, TxnStatus.PREPARED)
            seconds = max(1, (row.timeout_at - tx.db.now(tx.c)) // 1000)
            return prepare(tx, TXN + txn, tablets, vault, seconds)

    def write_rowset(self, *written: Written) -> None:
        """Record that all files of prepared rowsets are written; the rowsets stay invisible until the commit.

        Raises:
            WrongState: one is not being written.
        """
        check_some("rowsets", written)
        if len({rowset.rowset for rowset in written}) < len(written):
            raise BadInput("a rowset is named twice; record each once")
        ids_by_values: dict[Written, set[str]] = defaultdict(set)
        for rowset in written:
            ids_by_values[rowset.model_copy(update={"rowset": ""})].add(rowset.rowset)
        with self._write() as tx:
            t = tx.t.rowsets
            is_written = tx.in_instance(t.c.id, {rowset.rowset for rowset in written})
            # In the order in which a round locks those that it removes.
            tx.c.execute(select(t.c.id).where(is_written).order_by(t.c.id).with_for_update()).all()
            for same_values, ids in ids_by_values.items():
                values = same_values.model_dump(exclude={"rowset"})
                is_unfinished = [tx.in_instance(t.c.id, ids), t.c.state.in_((RowsetState.PREPARED, RowsetState.TMP))]
                change = update(t).where(*is_unfinished).values(state=RowsetState.TMP, **values).returning(t.c.id)
                if unchanged := ids - set(tx.c.execute(change).scalars()):
                    raise WrongState(f"rowset {min(unchanged)} is not being written: it is unknown, visible or deleted")

    def precommit(self, txn: str) -> None:
        """Finish the first phase of a two-phase load: from now on only a commit or an abort ends it, no timeout."""
        with self._write() as tx:
            _expect(_locked(tx, txn), TxnStatus.PREPARED)
            tx.c.execute(
                update(tx.t.txns).where(tx.in_instance(tx.t.txns.c.id, [txn])).values(status=TxnStatus.PRECOMMITTED)
            )

    def commit(self, txn: str, rowsets: Sequence[str] = ()) -> None:
        """Make all rowsets of a load and its parts visible, under the next versions of their partitions.

        Args:
            txn: the load.
            rowsets: the rowsets that the writers report, beside the recorded ones: if one was collected meanwhile, the
                commit must fail.

        Raises:
            contract.Collected: a rowset was fenced or collected; nothing is committed.
            WrongState: the load has ended, or a rowset is not written yet.
            AlreadyDropped: a table, index or partition that it loads into was dropped meanwhile; abort the load.
        """
        with self._write() as tx:
            row = _locked(tx, txn)
            t = tx.t.txns
            parts = tx.ids(select(t.c.id).where(tx.in_instance(t.c.parent_id, [txn])).order_by(t.c.id))
            rowset = tx.t.rowsets
            writers = [TXN + txn_id for txn_id in (txn, *parts)]
            rows = tx.c.execute(
                select(rowset).where(tx.in_instance(rowset.c.owner_txn, writers)).order_by(rowset.c.id)
            ).all()
            new_rows = [row for row in rows if row.state in (RowsetState.PREPARED, RowsetState.TMP)]
            contract.commit(tx.c, tx.instance, {*rowsets, *(row.id for row in new_rows)})
            _expect(row, TxnStatus.PREPARED, TxnStatus.PRECOMMITTED)
            if unwritten := [row.id for row in new_rows if row.state != RowsetState.TMP]:
                raise WrongState(f"{', '.join(unwritten[:5])}: not written yet; write it, or abort {txn}")
            ensure_found(rowset, rowsets, (row.id for row in new_rows))
            publish(tx, sorted(new_rows, key=lambda row: (writers.index(row.owner_txn), row.id)))
            tx.c.execute(update(t).where(tx.in_instance(t.c.id, [txn, *parts])).values(status=TxnStatus.VISIBLE))
            contract.mark(tx.c, tx.instance, labels.KIND, [contract.NewMark(id=txn, vault=None)])

    def abort(self, txn: str) -> None:
        """End a load without its data. Its label is free again; its files are deleted after timeout and retention.

        Raises:
            WrongState: the load is visible.
        """
        with self._write() as tx:
            row = _locked(tx, txn)
            if row.status == TxnStatus.ABORTED:
                return
            _expect(row, TxnStatus.PREPARED, TxnStatus.PRECOMMITTED)
            t, label = tx.t.txns, tx.t.labels
            for column in (t.c.id, t.c.parent_id):
                tx.c.execute(update(t).where(tx.in_instance(column, [txn])).values(status=TxnStatus.ABORTED))
            tx.c.execute(update(label).where(tx.in_instance(label.c.txn_id, [txn])).values(active=False))
            contract.mark(tx.c, tx.instance, labels.KIND, [contract.NewMark(id=txn, vault=None)])


def _begin(tx: CatalogTransaction, label: str | None, timeout_at: int, parent: str | None) -> str:
    txn = new_id()
    row = {"id": txn, "label": label, "status": TxnStatus.PREPARED, "timeout_at": timeout_at, "parent_id": parent}
    add(tx, tx.t.txns, [row])
    return txn


def _locked(tx: CatalogTransaction, txn: str, *, allow_part: bool = False) -> Any:
    """Return the row of a load, locked, so that no other transaction ends it meanwhile.

    Raises:
        RecordNotFound: there is no such load.
        WrongState: it is a part of a load, and ``allow_part`` is not set.
    """
    t = tx.t.txns
    parent = tx.c.execute(select(t.c.parent_id).where(tx.in_instance(t.c.id, [txn]))).scalar_one_or_none()
    if parent is not None:
        if not allow_part:
            raise WrongState(f"{txn} is a part of {parent} and ends with it")
        _expect(_locked(tx, parent), TxnStatus.PREPARED)  # first: a commit locks a load before its parts
    row = tx.c.execute(select(t).where(tx.in_instance(t.c.id, [txn])).with_for_update()).one_or_none()
    if row is None:
        raise RecordNotFound(f"there is no transaction {txn}")
    return row


def _expect(row: Any, *statuses: TxnStatus) -> None:
    if row.status not in statuses:
        raise WrongState(f"transaction {row.id} is {row.status}, not {' or '.join(statuses)}")
