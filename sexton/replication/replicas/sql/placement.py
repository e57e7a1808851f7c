"""Store where the owner has placed the replicas of tablets. A tablet never loses its last replica by mistake."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Text, and_, delete, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list
from sexton.kernel.errors import BadInput
from sexton.replication.errors import LastCopy, UnknownBackend
from sexton.replication.journal.model import Op, ReplicaOutcome, ReportKind, replicas_info
from sexton.replication.journal.store import JournalStore
from sexton.replication.log_rows import check_names, ensure_log_rows, is_dropped
from sexton.replication.replicas.model import MAX_PLACED_COPIES, Placement, PlaceResult
from sexton.replication.replicas.sql.rows import ALL_GRANTED, healthy

CopyKey = tuple[str, str]
"""The uid and the backend of a replica."""


class CopyPlace(NamedTuple):
    """A replica, and where it is placed."""

    uid: str
    backend: str
    tablet: str
    part: str

    @property
    def key(self) -> CopyKey:
        """Return what names the replica in its instance."""
        return self.uid, self.backend


PLACED_COLUMNS = CopyPlace._fields


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
        db, t, fold = self._db, self._db.t.replica, self._db.t.binlog_partition_cut
        live = and_(t.c.instance == instance, t.c.db == order.db, t.c.tbl == order.table, t.c.dropped.is_(False))
        with deciding(db, instance) as c:
            # A generic plan compares each row with each placed copy.
            c.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
            ensure_log_rows(db, c, instance, order.db, order.table)  # its log can be read before its first record
            if is_dropped(db, c, instance, order.db, order.table):
                raise BadInput(f"table {order.table} of {order.db} is dropped; names never come back: use another id")
            copies = (
                CopyPlace(copy.uid, copy.backend, tablet.tablet, tablet.part)
                for tablet in order.tablets
                for copy in tablet.copies
            )
            placed = {copy.key: copy for copy in copies}
            in_partitions = in_list(t.c.part, sorted({tablet.part for tablet in order.tablets}))
            columns = select(*(t.c[column] for column in PLACED_COLUMNS))
            rows = c.execute(columns.where(live, in_partitions))
            stored = {copy.key: copy for copy in (CopyPlace(*row) for row in rows)}
            tablets = {tablet.tablet for tablet in order.tablets}
            missing = next((copy.tablet for copy in stored.values() if copy.tablet not in tablets), None)
            if missing is not None:
                raise BadInput(
                    f"tablet {missing} of table {order.table} is missing, but its partition is placed: name all "
                    "tablets of a partition with all their replicas, or name the partition as dropped"
                )
            new = [copy for key, copy in placed.items() if stored.get(key) != copy]
            self._add(c, instance, order, new)
            by_schema: dict[int, list[str]] = defaultdict(list)  # one for each index
            for tablet in order.tablets:
                if tablet.schema_hash is not None:
                    by_schema[tablet.schema_hash].append(tablet.tablet)
            for schema_hash, of_schema in by_schema.items():  # reports from before say nothing of another schema
                changed = and_(in_list(t.c.tablet, of_schema), t.c.schema_hash.is_distinct_from(schema_hash))
                c.execute(update(t).where(live, changed).values(schema_hash=schema_hash, fresh_until=db.now(c)))
            removed = self._remove_copies(c, instance, [key for key in stored if key not in placed])
            dropped = 0
            if order.dropped:  # of these partitions every backend may delete everything
                grant = update(t).where(live, in_list(t.c.part, order.dropped)).values(**ALL_GRANTED)
                dropped = c.execute(grant).rowcount
            of_table = and_(fold.c.instance == instance, fold.c.db == order.db, fold.c.tbl == order.table)
            c.execute(delete(fold).where(of_table, in_list(fold.c.part, order.dropped)))
        return PlaceResult(added=len(new), kept=len(placed) - len(new), removed=removed, dropped=dropped)

    def decommission(self, instance: str, backend: str) -> int:
        """Delete a backend that will never come back, with all its replicas; return how many there were.

        Raises:
            UnknownInstance, UnknownBackend: it does not exist.
            LastCopy: a tablet has no healthy replica on another backend. Place one first, or drop the table.
        """
        t, b = self._db.t.replica, self._db.t.backend
        other = t.alias("other")
        on_backend = and_(t.c.instance == instance, t.c.backend == backend)
        elsewhere = and_(other.c.instance == instance, other.c.tablet == t.c.tablet, other.c.backend != backend)
        with deciding(self._db, instance) as c:
            is_healthy = and_(other.c.dropped.is_(False), healthy(other, self._db.now(c)))
            healthy_elsewhere = select(other.c.uid).where(elsewhere, is_healthy)
            only_here = select(t.c.tablet).where(on_backend, t.c.dropped.is_(False), ~healthy_elsewhere.exists())
            last_copies = c.execute(only_here.order_by(t.c.tablet).limit(5)).scalars().all()
            if last_copies:
                raise LastCopy(
                    f"no replica of tablet {', '.join(last_copies)} on another backend than {backend} is healthy: "
                    "place one first, or drop its table or partition"
                )
            removed = self._remove(c, instance, on_backend)
            backend_rows = c.execute(delete(b).where(b.c.instance == instance, b.c.name == backend)).rowcount
            if not removed and not backend_rows:
                raise UnknownBackend(backend)
            return removed

    # No statement joins the placed copies: PostgreSQL does not know how many they are, and may compare each with each.

    def _add(self, c: Connection, instance: str, order: Placement, copies: Sequence[CopyPlace]) -> None:
        """Add new replicas. Their backends must delete what was cut before they were placed, too."""
        db, t, fold = self._db, self._db.t.replica, self._db.t.binlog_partition_cut
        of_table = and_(fold.c.instance == instance, fold.c.db == order.db, fold.c.tbl == order.table)
        in_partitions = and_(of_table, in_list(fold.c.part, {tablet.part for tablet in order.tablets}))
        cut = {row.part: row.version for row in c.execute(select(fold.c.part, fold.c.version).where(in_partitions))}
        of_tablets = and_(t.c.instance == instance, in_list(t.c.tablet, {copy.tablet for copy in copies}))
        highest = select(t.c.tablet, func.max(t.c.gone).label("gone")).where(of_tablets).group_by(t.c.tablet)
        released = {row.tablet: row.gone for row in c.execute(highest)}  # its data may have been deleted up to there
        data = [
            copy._asdict() | {"desired": cut.get(copy.part, -1), "gone": released.get(copy.tablet, -1)}
            for copy in copies
        ]
        versions = {"desired": BigInteger(), "gone": BigInteger()}
        new = as_rows(data, **dict.fromkeys(PLACED_COLUMNS, Text()), **versions)
        no_report_yet = literal(db.now(c), t.c.fresh_until.type)
        table_columns = [literal(value) for value in (instance, order.db, order.table)]
        columns = (*PLACED_COLUMNS, *versions)
        rows = select(*table_columns, no_report_yet, *(new.c[column] for column in columns)).where(new.c.uid != "")
        add = upsert(t).from_select(["instance", "db", "tbl", "fresh_until", *columns], rows)
        added = c.execute(add.on_conflict_do_nothing().returning(t.c.uid)).all()
        if len(added) < len(copies):
            raise BadInput("a uid belongs to another replica, or to a dropped one: uids never come back")

    def _remove_copies(self, c: Connection, instance: str, keys: Iterable[CopyKey]) -> int:
        """Delete replicas that are not placed any longer; return how many."""
        t, removed = self._db.t.replica, 0
        uids: dict[str, list[str]] = {}
        for uid, backend in keys:
            uids.setdefault(backend, []).append(uid)
        for backend, of_backend in sorted(uids.items()):
            on_backend = and_(t.c.instance == instance, t.c.backend == backend)
            removed += self._remove(c, instance, and_(on_backend, in_list(t.c.uid, of_backend)))
        return removed

    def _remove(self, c: Connection, instance: str, condition: ColumnElement[bool]) -> int:
        """Delete replicas; return how many.

        The journal gets the end of unhealthy ones: a healthy replica may take their place on the same backend.
        """
        t = self._db.t.replica
        deleted = delete(t).where(condition).returning(t.c.tablet, t.c.backend, t.c.bad_since, t.c.failed)
        removed = c.execute(deleted).all()
        outcomes: dict[str, list[ReplicaOutcome]] = {}
        for row in removed:
            if row.bad_since is not None or row.failed >= 0:
                outcomes.setdefault(row.backend, []).append(ReplicaOutcome(tablet=row.tablet, kind=ReportKind.HEALTHY))
        for backend, of_backend in sorted(outcomes.items()):
            JournalStore(self._db).append(c, instance, Op.BACKEND_REPLICAS_INFO, replicas_info(backend, of_backend))
        return len(removed)


def check_placement(order: Placement) -> None:
    """Check that a placement is complete and names nothing twice.

    Raises:
        BadInput: an id appears twice, a tablet has no replica, or a partition is placed and dropped.
    """
    check_names(order.db, order.table)
    if not order.table:
        raise BadInput("the table is missing: name the table of the tablets")
    copies = [copy for tablet in order.tablets for copy in tablet.copies]
    if max(len(copies), len(order.dropped)) > MAX_PLACED_COPIES:
        raise BadInput(
            f"{len(copies):,} replicas and {len(order.dropped):,} dropped partitions are too many for one placement: "
            f"send at most {MAX_PLACED_COPIES:,} of each, partition by partition"
        )
    if len({tablet.tablet for tablet in order.tablets}) < len(order.tablets):
        raise BadInput("a tablet appears twice: name each tablet once, with all its replicas")
    if len({(copy.backend, copy.uid) for copy in copies}) < len(copies):
        raise BadInput("a replica appears twice: name each uid of a backend once")
    for tablet in order.tablets:
        if not tablet.copies:
            raise BadInput(f"tablet {tablet.tablet} has no replica: nothing would retain the versions that it needs")
        if len({copy.backend for copy in tablet.copies}) < len(tablet.copies):
            raise BadInput(f"tablet {tablet.tablet} has two replicas on one backend")
    placed_and_dropped = {tablet.part for tablet in order.tablets} & set(order.dropped)
    if placed_and_dropped:
        raise BadInput(f"partition {min(placed_and_dropped)} is listed both in tablets and in dropped partitions")
