"""Loads: begin under a label, prepare before the first file, write, commit or abort. One transaction each."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import select, update

from sexton import contract
from sexton.database.contract_errors import check_text
from sexton.kernel.errors import BadInput
from sexton.owners.catalog import labels
from sexton.owners.catalog.errors import AlreadyThere, LabelTaken, RecordNotFound, WrongState
from sexton.owners.catalog.model import TXN, Output, RowsetState, TxnStatus, Written
from sexton.owners.catalog.records import CatalogRecords, add, found, mint
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.writing import prepare, publish


class Loads(CatalogRecords):
    """Transactions and the rowsets they write."""

    def begin(self, label: str, timeout_seconds: int) -> str:
        """Begin a load under a label; return its id.

        Raises:
            LabelTaken: another one under this label runs or is visible; one that was aborted does not count.
            BadInput: the time is not above 0 and at most 366 days, or the label is no text.
        """
        check_text(label)
        if not 0 < timeout_seconds <= contract.MAX_TTL_SECONDS:
            raise BadInput(f"timeout_seconds is {timeout_seconds}; 1 to {contract.MAX_TTL_SECONDS}")
        with self._write() as s:
            txn = _begin(s, label, s.db.now(s.c) + timeout_seconds * 1000, None)
            try:
                add(s, s.t.labels, [{"txn_id": txn, "label": label, "active": True}])
            except AlreadyThere as e:
                raise LabelTaken(f"a load with label {label} runs or is visible; it is this one, or use another") from e
            return txn

    def begin_sub(self, parent: str) -> str:
        """Begin a part of a load that is committed, aborted and timed out with it; return its id."""
        with self._write() as s:
            row = _locked(s, parent)
            _expect(row, TxnStatus.PREPARED)
            return _begin(s, None, row.timeout_at, parent)

    def prepare_rowsets(self, txn: str, tablets: Sequence[str], vault: str) -> list[Output]:
        """Announce a rowset for each of the tablets (one may be named again) and return where its files go.

        Nothing may be written before this has returned.
        """
        with self._write() as s:
            row = _locked(s, txn, part=True)
            _expect(row, TxnStatus.PREPARED)
            seconds = max(1, (row.timeout_at - s.db.now(s.c)) // 1000)
            return prepare(s, TXN + txn, tablets, vault, seconds)

    def write_rowset(self, *written: Written) -> None:
        """Record that all files of prepared rowsets are written; they stay unseen until the commit."""
        alike: dict[Written, set[str]] = defaultdict(set)
        for one in written:
            alike[one.model_copy(update={"rowset": ""})].add(one.rowset)
        with self._write() as s:
            rowset = s.t.rowsets
            for told, ids in alike.items():
                values = told.model_dump(exclude={"rowset"})
                mine = [s.mine(rowset.c.id, ids), rowset.c.state.in_((RowsetState.PREPARED, RowsetState.TMP))]
                changed = update(rowset).where(*mine).values(state=RowsetState.TMP, **values).returning(rowset.c.id)
                if wrong := ids - set(s.c.execute(changed).scalars()):
                    raise WrongState(f"rowset {min(wrong)} is not being written: it is unknown, visible or gone")

    def precommit(self, txn: str) -> None:
        """Finish the first phase of a load in two phases: from now on only ``commit`` or ``abort`` ends it."""
        with self._write() as s:
            _expect(_locked(s, txn), TxnStatus.PREPARED)
            s.c.execute(update(s.t.txns).where(s.mine(s.t.txns.c.id, [txn])).values(status=TxnStatus.PRECOMMITTED))

    def commit(self, txn: str, rowsets: Collection[str] = ()) -> None:
        """Make all that a load and its parts wrote visible, under the next versions of their partitions.

        Args:
            txn: the load.
            rowsets: what the writers say they wrote, beside what is recorded: what is gone must not pass for committed.

        Raises:
            contract.Collected: a rowset was fenced or collected; nothing is committed.
            WrongState: the load has ended, or a rowset is not written yet.
            Dropped: a table, index or partition it loads into was dropped meanwhile; abort it.
        """
        with self._write() as s:
            row = _locked(s, txn)
            t = s.t.txns
            parts = s.ids(select(t.c.id).where(s.mine(t.c.parent_id, [txn])).order_by(t.c.id))
            rowset = s.t.rowsets
            owners = [TXN + i for i in (txn, *parts)]
            rows = s.c.execute(select(rowset).where(s.mine(rowset.c.owner_txn, owners)).order_by(rowset.c.id)).all()
            new = [r for r in rows if r.state in (RowsetState.PREPARED, RowsetState.TMP)]
            contract.commit(s.c, s.instance, {*rowsets, *(r.id for r in new)})
            _expect(row, TxnStatus.PREPARED, TxnStatus.PRECOMMITTED)
            if unwritten := [r.id for r in new if r.state != RowsetState.TMP]:
                raise WrongState(f"{', '.join(unwritten[:5])}: not written yet; write it, or abort {txn}")
            found(rowset, rowsets, (r.id for r in new))
            publish(s, sorted(new, key=lambda r: (owners.index(r.owner_txn), r.id)))
            s.c.execute(update(t).where(s.mine(t.c.id, [txn, *parts])).values(status=TxnStatus.VISIBLE))
            contract.mark(s.c, s.instance, labels.KIND, [contract.NewMark(id=txn, vault=None)])

    def abort(self, txn: str) -> None:
        """End a load without its data: its label is free again, its files go when its time and the retention are over.

        Raises:
            WrongState: it is visible.
        """
        with self._write() as s:
            row = _locked(s, txn)
            if row.status == TxnStatus.ABORTED:
                return
            _expect(row, TxnStatus.PREPARED, TxnStatus.PRECOMMITTED)
            t, label = s.t.txns, s.t.labels
            for column in (t.c.id, t.c.parent_id):
                s.c.execute(update(t).where(s.mine(column, [txn])).values(status=TxnStatus.ABORTED))
            s.c.execute(update(label).where(s.mine(label.c.txn_id, [txn])).values(active=False))
            contract.mark(s.c, s.instance, labels.KIND, [contract.NewMark(id=txn, vault=None)])


def _begin(s: CatalogTransaction, label: str | None, timeout_at: int, parent: str | None) -> str:
    txn = mint()
    row = {"id": txn, "label": label, "status": TxnStatus.PREPARED, "timeout_at": timeout_at, "parent_id": parent}
    add(s, s.t.txns, [row])
    return txn


def _locked(s: CatalogTransaction, txn: str, *, part: bool = False) -> Any:
    """Return the row of a load, nobody else ending it meanwhile; of a part of one only where that will do."""
    this = select(s.t.txns).where(s.mine(s.t.txns.c.id, [txn])).with_for_update()
    above = select(s.t.txns.c.parent_id).where(s.mine(s.t.txns.c.id, [txn]))
    parent = s.c.execute(above).scalar_one_or_none()
    if parent is not None:
        if not part:
            raise WrongState(f"{txn} is a part of {parent} and ends with it")
        _expect(_locked(s, parent), TxnStatus.PREPARED)  # first: its commit takes the parts after itself
    row = s.c.execute(this).one_or_none()
    if row is None:
        raise RecordNotFound(f"there is no transaction {txn}")
    return row


def _expect(row: Any, *statuses: TxnStatus) -> None:
    if row.status not in statuses:
        raise WrongState(f"transaction {row.id} is {row.status}, not {' or '.join(statuses)}")
