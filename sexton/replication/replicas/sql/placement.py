"""Store where the owner has placed the replicas of tablets. A tablet never loses its last replica by mistake."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Text, and_, delete, func, literal, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list, upsert
from sexton.kernel.errors import BadInput
from sexton.replication.journal.model import Op, ReplicaOutcome, ReportKind, replicas_info
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas.errors import LastCopy, UnknownBackend
from sexton.replication.replicas.model import Backend, Placement, PlaceResult
from sexton.replication.replicas.placing import check_placement
from sexton.replication.replicas.sql.rows import ALL_GRANTED, healthy
from sexton.replication.sql.log_rows import ensure_log_rows, is_dropped

TEXT = Text()
PLACED_COLUMNS = ("uid", "backend", "tablet", "part")


class PlacementStore:
    """Stores placements."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def place(self, instance: str, order: Placement) -> PlaceResult:
        """Store all tablets of some partitions with all their replicas; repeatable.

        The owner places a replica before the replica takes its first version. Until its backend reports, it blocks
        deletion of every version.

        Raises:
            UnknownInstance: no such instance.
            BadInput: a stored tablet of a placed partition is missing, or the placement is invalid. A missing tablet
                would retain nothing for its replicas; an owner must name a dropped partition as dropped.
        """
        check_placement(order)
        db = self._db
        with deciding(db, instance) as c:
            ensure_log_rows(db, c, instance, order.db, order.table)  # its log can be read before its first record
            if is_dropped(db, c, instance, order.db, order.table):
                raise BadInput(f"table {order.table} of {order.db} is dropped; names never come back: use another id")
            self._check_complete(c, instance, order)
            placed = self._as_rows(order)
            already_placed = self._count_placed(c, instance, order, placed)
            self._add(c, instance, order, placed)
            removed = self._remove_replaced(c, instance, order, placed)
            copies = sum(len(tablet.copies) for tablet in order.tablets)
            if self._count_placed(c, instance, order, placed) < copies:
                raise BadInput("a uid belongs to another replica, or to a dropped one: uids never come back")
            dropped = self._drop_partitions(c, instance, order)
        return PlaceResult(added=copies - already_placed, kept=already_placed, removed=len(removed), dropped=dropped)

    def decommission(self, instance: str, backend: str) -> int:
        """Delete a backend that will never come back, with all its replicas; return how many there were.

        Raises:
            UnknownInstance, UnknownBackend: it does not exist.
            LastCopy: a tablet has no healthy replica on another backend. Place one first, or drop the table.
        """
        t, b = self._db.t.replica, self._db.t.backend
        with deciding(self._db, instance) as c:
            last_copies = self._tablets_only_on(c, instance, backend)
            if last_copies:
                raise LastCopy(
                    f"no replica of tablet {', '.join(last_copies)} on another backend than {backend} is healthy: "
                    "place one first, or drop its table or partition"
                )
            on_backend = and_(t.c.instance == instance, t.c.backend == backend)
            removed = self._remove(c, instance, on_backend)
            backend_rows = c.execute(delete(b).where(b.c.instance == instance, b.c.name == backend)).rowcount
            if not removed and not backend_rows:
                raise UnknownBackend(backend)
            return len(removed)

    def backends(self, instance: str) -> Sequence[Backend]:
        """Return the backends that have reported or pulled, by name."""
        b = self._db.t.backend
        with self._db.read() as c:
            backends = c.execute(select(b).where(b.c.instance == instance).order_by(b.c.name))
            return [Backend(**row._mapping) for row in backends]

    # The conditions of a placement

    def _live_of_table(self, instance: str, order: Placement) -> ColumnElement[bool]:
        t = self._db.t.replica
        return and_(t.c.instance == instance, t.c.db == order.db, t.c.tbl == order.table, t.c.dropped.is_(False))

    def _live_of_partitions(self, instance: str, order: Placement) -> ColumnElement[bool]:
        partitions = sorted({tablet.part for tablet in order.tablets})
        return and_(self._live_of_table(instance, order), in_list(self._db, self._db.t.replica.c.part, partitions))

    def _same_copy(self, placed: FromClause) -> ColumnElement[bool]:
        t = self._db.t.replica
        return and_(placed.c.uid == t.c.uid, placed.c.backend == t.c.backend)

    # The steps of a placement

    def _check_complete(self, c: Connection, instance: str, order: Placement) -> None:
        t = self._db.t.replica
        placed_tablets = {tablet.tablet for tablet in order.tablets}
        stored = select(t.c.tablet).where(self._live_of_partitions(instance, order)).distinct()
        for tablet in c.execute(stored).scalars():
            if tablet not in placed_tablets:
                raise BadInput(
                    f"tablet {tablet} of table {order.table} is missing, but its partition is placed: name all tablets "
                    "of a partition with all their replicas, or name the partition as dropped"
                )

    def _as_rows(self, order: Placement) -> FromClause:
        data = [
            {"uid": copy.uid, "backend": copy.backend, "tablet": tablet.tablet, "part": tablet.part}
            for tablet in order.tablets
            for copy in tablet.copies
        ]
        return as_rows(self._db, data, **dict.fromkeys(PLACED_COLUMNS, TEXT))

    def _count_placed(self, c: Connection, instance: str, order: Placement, placed: FromClause) -> int:
        """Return how many of the placed replicas are stored, with the same tablet and partition."""
        t = self._db.t.replica
        already_placed = and_(self._same_copy(placed), placed.c.tablet == t.c.tablet, placed.c.part == t.c.part)
        count = select(func.count()).select_from(t.join(placed, already_placed))
        return int(c.execute(count.where(self._live_of_table(instance, order))).scalar_one())

    def _add(self, c: Connection, instance: str, order: Placement, placed: FromClause) -> None:
        """Add new replicas. Their backends must delete what was cut before they were placed, too."""
        db, t, fold = self._db, self._db.t.replica, self._db.t.binlog_partition_cut
        of_table = and_(fold.c.instance == instance, fold.c.db == order.db, fold.c.tbl == order.table)
        cut_of_partition = and_(of_table, fold.c.part == placed.c.part)
        table_columns = [literal(value) for value in (instance, order.db, order.table)]
        placed_columns = [placed.c[column] for column in PLACED_COLUMNS]
        no_report_yet = literal(db.now(c), t.c.fresh_until.type)
        same_tablet = and_(t.c.instance == instance, t.c.tablet == placed.c.tablet)
        released_version = func.coalesce(select(func.max(t.c.gone)).where(same_tablet).scalar_subquery(), -1)
        desired = func.coalesce(fold.c.version, -1)
        new = select(*table_columns, *placed_columns, no_report_yet, desired, released_version)
        new = new.select_from(placed.outerjoin(fold, cut_of_partition)).where(placed.c.uid != "")
        columns = ["instance", "db", "tbl", *PLACED_COLUMNS, "fresh_until", "desired", "gone"]
        c.execute(upsert(db, t).from_select(columns, new).on_conflict_do_nothing())

    def _remove_replaced(self, c: Connection, instance: str, order: Placement, placed: FromClause) -> Sequence[Any]:
        """Delete the stored replicas of the placed partitions that are not placed any longer."""
        is_placed = select(literal(1)).select_from(placed).where(self._same_copy(placed)).exists()
        return self._remove(c, instance, and_(self._live_of_partitions(instance, order), ~is_placed))

    def _remove(self, c: Connection, instance: str, condition: ColumnElement[bool]) -> Sequence[Any]:
        """Delete replicas, and tell followers about unhealthy ones; return the deleted rows."""
        t = self._db.t.replica
        deleted = delete(t).where(condition).returning(t.c.tablet, t.c.backend, t.c.bad_since, t.c.failed)
        removed = c.execute(deleted).all()
        self._report_healthy(c, instance, removed)
        return removed

    def _report_healthy(self, c: Connection, instance: str, removed: Sequence[Any]) -> None:
        """Journal the end of unhealthy replicas: a healthy one may take their place on the same backend."""
        outcomes: dict[str, list[ReplicaOutcome]] = {}
        for row in removed:
            if row.bad_since is not None or row.failed >= 0:
                outcomes.setdefault(row.backend, []).append(ReplicaOutcome(tablet=row.tablet, kind=ReportKind.HEALTHY))
        for backend, of_backend in sorted(outcomes.items()):
            JournalStore(self._db).append(c, instance, Op.BACKEND_REPLICAS_INFO, replicas_info(backend, of_backend))

    def _drop_partitions(self, c: Connection, instance: str, order: Placement) -> int:
        """Grant the replicas of dropped partitions everything; return how many replicas that are."""
        t, fold = self._db.t.replica, self._db.t.binlog_partition_cut
        dropped = 0
        if order.dropped:
            live = and_(self._live_of_table(instance, order), in_list(self._db, t.c.part, order.dropped))
            dropped = c.execute(update(t).where(live).values(**ALL_GRANTED)).rowcount
        of_table = and_(fold.c.instance == instance, fold.c.db == order.db, fold.c.tbl == order.table)
        c.execute(delete(fold).where(of_table, in_list(self._db, fold.c.part, order.dropped)))
        return dropped

    def _tablets_only_on(self, c: Connection, instance: str, backend: str) -> Sequence[str]:
        """Return some tablets of a backend that have no healthy replica on another one."""
        t, now = self._db.t.replica, self._db.now(c)
        other = t.alias("other")
        elsewhere = and_(other.c.instance == instance, other.c.tablet == t.c.tablet, other.c.backend != backend)
        healthy_elsewhere = select(other.c.uid).where(elsewhere, other.c.dropped.is_(False), healthy(other, now))
        on_backend = and_(t.c.instance == instance, t.c.backend == backend, t.c.dropped.is_(False))
        only_here = select(t.c.tablet).where(on_backend, ~healthy_elsewhere.exists()).order_by(t.c.tablet).limit(5)
        return list(c.execute(only_here).scalars())
