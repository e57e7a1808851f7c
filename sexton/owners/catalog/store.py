"""The operations of a database on its metadata, each in one transaction: loads and compactions, and the hierarchy.

A load or compaction prepares before the first file, writes, and then makes visible or aborts. The catalog marks garbage
through ``sexton.contract`` inside its own transactions, as any owner does.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, func, select, update

from sexton import contract
from sexton.database.contract_errors import check_text
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.owners.catalog import rowsets
from sexton.owners.catalog.hierarchy import Hierarchy
from sexton.owners.catalog.model import (
    JOB,
    MOST_CHARACTERS,
    TXN,
    AlreadyThere,
    Job,
    LabelTaken,
    Output,
    RecordNotFound,
    RowsetState,
    TxnStatus,
    Written,
    WrongState,
    rowset_prefix,
)
from sexton.owners.catalog.records import (
    CatalogTransaction,
    add,
    check_seconds,
    check_some,
    ensure_found,
    lock_tablets_against_drop,
    new_id,
    update_counters,
)
from sexton.owners.operations import from_method

EXPIRY_SECONDS = 3_600
"""Time that a compaction has by default."""


class Catalog(Hierarchy):
    """The catalog of one instance: ``Catalog(db, instance)``. ``tables.create(db)`` must have been called once."""

    def begin(self, label: str, timeout_seconds: int) -> str:
        """Begin a load under a label; return its id.

        Raises:
            LabelTaken: another load with this label runs or is visible; an aborted one does not count.
            BadInput: the timeout is not above 0 and at most 366 days, or the label cannot be stored as text.
        """
        check_text(label)
        if not 0 < len(label) <= MOST_CHARACTERS:
            raise WrongUsage(f"the label has {len(label):,} characters; it must have 1 to {MOST_CHARACTERS}")
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
            return _prepare(tx, TXN + txn, tablets, vault, seconds)

    def write_rowset(self, *written: Written) -> None:
        """Record that all files of prepared rowsets are written; the rowsets stay invisible until the commit.

        Raises:
            WrongState: one is not being written.
        """
        check_some("rowsets", written)
        if len({rowset.rowset for rowset in written}) < len(written):
            raise WrongUsage("a rowset is named twice; record each once")
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
            tx.change(tx.t.txns.c.id, [txn], status=TxnStatus.PRECOMMITTED)

    def commit(self, txn: str, rowsets: Sequence[str] = ()) -> None:
        """Make all rowsets of a load and its parts visible, under the next versions of their partitions.

        ``rowsets``: those that the writers report, beside the recorded ones: if one was collected meanwhile, the commit
        must fail.

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
            _publish(tx, sorted(new_rows, key=lambda row: (writers.index(row.owner_txn), row.id)))
            tx.change(t.c.id, [txn, *parts], status=TxnStatus.VISIBLE)
            contract.mark(tx.c, tx.instance, "txn_label", [contract.NewMark(id=txn, vault=None)])

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
            tx.change(tx.t.txns.c.id, [txn], status=TxnStatus.ABORTED)
            rowsets.end(tx, [txn])

    def start_compaction(
        self, tablet: str, inputs: Sequence[str], vault: str, *, expiry_seconds: int = EXPIRY_SECONDS
    ) -> Job:
        """Announce a rowset that replaces the inputs; no file may be written before this has returned.

        ``inputs``: visible rowsets of the tablet. ``vault``: of the output, which will hold all versions from their
        first to their last. ``expiry_seconds``: how long the job may take.
        """
        check_seconds("expiry_seconds", expiry_seconds)
        with self._write() as tx:
            rows = _inputs(tx, tablet, inputs)
            job = new_id()
            [output] = _prepare(tx, JOB + job, [tablet], vault, expiry_seconds)
            first, last = min(r.first_version for r in rows), max(r.last_version for r in rows)
            tx.change(tx.t.rowsets.c.id, [output.rowset], first_version=first, last_version=last)
            row = {"id": job, "tablet_id": tablet, "output_id": output.rowset, "inputs": list(inputs)}
            add(tx, tx.t.jobs, [row])
            return Job(id=job, inputs=tuple(inputs), output=output)

    def finish_compaction(self, job: str) -> None:
        """Make the output visible and mark the inputs, in one transaction.

        Raises:
            contract.Collected: the output was fenced or collected: the job took too long.
            RecordNotFound: the job was removed.
            WrongState: the output is not written, or an input is no longer visible.
        """
        with self._write() as tx:
            row = tx.c.execute(
                select(tx.t.jobs).where(tx.in_instance(tx.t.jobs.c.id, [job])).with_for_update()
            ).one_or_none()
            if row is None:
                raise RecordNotFound(f"there is no job {job}: it has ended, or it was removed because it took too long")
            lock_tablets_against_drop(tx, [row.tablet_id])
            inputs = _inputs(tx, row.tablet_id, row.inputs)
            contract.commit(tx.c, tx.instance, [row.output_id])
            rowset = tx.t.rowsets
            is_written = rowset.c.state == RowsetState.TMP
            if tx.change(rowset.c.id, [row.output_id], is_written, state=RowsetState.VISIBLE) != 1:
                raise WrongState(f"the output {row.output_id} of job {job} is not written yet")
            tx.change(rowset.c.id, row.inputs, state=RowsetState.COMPACTED)
            _mark(tx, "compacted", inputs)
            tx.remove(tx.t.jobs.c.id, [job])
            update_counters(tx, [row.tablet_id])

    def drop_rowset(self, *rowsets: str) -> None:
        """Drop single visible rowsets; their versions are no longer needed."""
        check_some("rowsets", rowsets)
        with self._write() as tx:
            rows = _visible(tx, rowsets)
            lock_tablets_against_drop(tx, sorted({r.tablet_id for r in rows}))
            tx.change(tx.t.rowsets.c.id, rowsets, state=RowsetState.DROPPED)
            _mark(tx, "dropped", rows)
            update_counters(tx, {r.tablet_id for r in rows})


READS = ("show", "tablets", "rowsets")
OPERATIONS = tuple(
    from_method(Catalog, method, reads=name in READS)
    for methods in (Hierarchy, Catalog)
    for name, method in vars(methods).items()
    if not name.startswith("_")
)
"""What a meta service without a catalog of its own does through Sexton: each public method is an operation."""


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


def _prepare(tx: CatalogTransaction, writer: str, tablets: Sequence[str], vault: str, seconds: int) -> list[Output]:
    """Record a rowset for each of the tablets, about to be written by an ``owner_txn``, and mark them prepared.

    ``seconds``: how long the writer may take.
    """
    check_some("tablets", tablets)
    t = tx.db.t.vault
    if tx.c.execute(select(t.c.name).where(t.c.instance == tx.instance, t.c.name == vault)).first() is None:
        raise BadInput(f"instance {tx.instance} has no vault {vault!r}; register it with: sexton vault add")
    tablet_rows = lock_tablets_against_drop(tx, tablets)
    schema = tx.t.schemas
    indexes = {row.index_id for row in tablet_rows.values()}
    newest = select(schema.c.index_id, func.max(schema.c.version)).where(tx.in_instance(schema.c.index_id, indexes))
    versions = {row[0]: row[1] for row in tx.c.execute(newest.group_by(schema.c.index_id))}
    ensure_found(schema, indexes, versions)
    outputs, rowset_rows = [], []
    for tablet in tablets:
        rowset, index = new_id(), tablet_rows[tablet].index_id
        outputs.append(Output(rowset=rowset, tablet=tablet, vault=vault, prefix=rowset_prefix(tablet, rowset)))
        rowset_rows.append(
            {
                "id": rowset,
                "tablet_id": tablet,
                "index_id": index,
                "schema_version": versions[index],
                "state": RowsetState.PREPARED,
                "vault": vault,
                "owner_txn": writer,
                "segments": 0,
                "bytes": 0,
            }
        )
    add(tx, tx.t.rowsets, rowset_rows)
    ids, prefixes = [output.rowset for output in outputs], [output.prefix for output in outputs]
    contract.prepare(tx.c, tx.instance, writer, ids, vault, prefixes, seconds, parents=("tablet", list(tablets)))
    return outputs


def _publish(tx: CatalogTransaction, new_rows: Sequence[Any]) -> None:
    """Make rowsets visible under the next versions of their partitions, in the order of their rows.

    A partition advances by as many versions as the tablet in it with the most new rowsets has.
    """
    if not new_rows:
        return
    tablets = lock_tablets_against_drop(tx, {row.tablet_id for row in new_rows})
    version, partitions = tx.t.versions, {tablet.partition_id for tablet in tablets.values()}
    query = select(version.c.partition_id, version.c.value).where(tx.in_instance(version.c.partition_id, partitions))
    locked = tx.c.execute(query.order_by(version.c.partition_id).with_for_update())
    last_versions = {row.partition_id: row.value for row in locked}
    ensure_found(version, partitions, last_versions)
    rowsets_of_tablet: Counter[str] = Counter()
    new_versions: dict[str, int] = defaultdict(int)
    published = []
    for row in new_rows:
        rowsets_of_tablet[row.tablet_id] += 1
        position, partition = rowsets_of_tablet[row.tablet_id], tablets[row.tablet_id].partition_id
        new_versions[partition] = max(new_versions[partition], position)
        published.append({"rowset": row.id, "at": last_versions[partition] + position})
    rowset = tx.t.rowsets
    is_rowset = [rowset.c.instance == tx.instance, rowset.c.id == bindparam("rowset")]
    at = bindparam("at", type_=rowset.c.first_version.type)
    values = {"state": RowsetState.VISIBLE, "first_version": at, "last_version": at}
    in_order = sorted(published, key=lambda row: str(row["rowset"]))  # as all lock rowsets
    tx.c.execute(update(rowset).where(*is_rowset).values(**values), in_order)
    is_partition = [version.c.instance == tx.instance, version.c.partition_id == bindparam("partition")]
    value = version.c.value + bindparam("more", type_=version.c.value.type)
    moved = [{"partition": partition, "more": count} for partition, count in new_versions.items()]
    tx.c.execute(update(version).where(*is_partition).values(value=value), moved)
    update_counters(tx, tablets)


def _mark(tx: CatalogTransaction, kind: str, rows: Sequence[Any]) -> None:
    """Mark rowsets with their tablets as parents. The marks name no files: ``expand`` does so when they are due."""
    new_marks = [
        contract.NewMark(id=r.id, vault=r.vault, bytes=r.bytes, parent=("tablet", r.tablet_id), owner_txn=r.owner_txn)
        for r in rows
    ]
    contract.mark(tx.c, tx.instance, kind, new_marks)


def _inputs(tx: CatalogTransaction, tablet: str, ids: Sequence[str]) -> Sequence[Any]:
    rows = _visible(tx, ids)
    if not rows or any(r.tablet_id != tablet for r in rows):
        raise WrongState(f"the inputs of a compaction must be one or more rowsets of its own tablet {tablet}")
    return rows


def _visible(tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[Any]:
    """Return visible rowsets, locked until the transaction ends."""
    rowset = tx.t.rowsets
    rows = tx.c.execute(
        select(rowset).where(tx.in_instance(rowset.c.id, ids)).order_by(rowset.c.id).with_for_update()
    ).all()
    ensure_found(rowset, ids, (r.id for r in rows))
    if hidden := [f"{r.id} is {r.state}" for r in rows if r.state != RowsetState.VISIBLE]:
        raise WrongState(f"{', '.join(hidden[:5])}; only visible rowsets are compacted or dropped")
    return rows
