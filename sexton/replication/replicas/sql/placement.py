"""Where the copies of tablets are, as the owner says. A tablet that has a copy is never without one by mistake."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, FromClause, Text, and_, delete, func, literal, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list, upsert
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import MOST
from sexton.replication.binlog.sql.config import check_names, ensure
from sexton.replication.binlog.sql.rows import logs
from sexton.replication.journal.model import Op, ReplicaOutcome, ReportKind, replicas_info
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas.errors import LastCopy, UnknownBackend
from sexton.replication.replicas.model import Backend, Placed, Placement
from sexton.replication.replicas.sql.rows import well
from sexton.storage.policy import ID_CHARACTERS

TEXT = Text()
GONE = {"dropped": True, "desired": MOST, "granted": MOST}
"""Of what is dropped everything may go; who has answered that is let go."""


class PlacementStore:
    """Takes placements."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def place(self, instance: str, order: Placement) -> Placed:
        """Store where the copies of some partitions are: all tablets of each, and all their copies; repeatable.

        A copy is placed before it takes its first version. Nobody reports for it until then, so it holds everything.

        Raises:
            UnknownInstance: no such instance.
            BadInput: a tablet that was there is not named, is named twice or has no copy: nothing would keep what its
                copies need. What is dropped is named as dropped.
        """
        _check(order)
        db, t = self._db, self._db.t.replica
        with deciding(db, instance) as c:
            ensure(db, c, instance, order.db, order.table)  # so that its log can be read before its first record
            if any(its.dropped_at is not None for its in logs(db, c, instance, order.db, [order.table]).values()):
                raise BadInput(f"table {order.table} of {order.db} is dropped; names never come back")
            mine = and_(t.c.instance == instance, t.c.db == order.db, t.c.tbl == order.table, t.c.dropped.is_(False))
            here = and_(mine, in_list(db, t.c.part, sorted({its.part for its in order.tablets})))
            named = {its.tablet for its in order.tablets}
            for tablet in c.execute(select(t.c.tablet).where(here).distinct()).scalars():
                if tablet not in named:
                    raise BadInput(
                        f"tablet {tablet} of table {order.table} is not named, and its partition is: name all tablets "
                        "of a partition with all their copies, or say that the partition is dropped"
                    )
            wanted = self._wanted(order)
            same = and_(wanted.c.uid == t.c.uid, wanted.c.backend == t.c.backend)
            its = and_(same, wanted.c.tablet == t.c.tablet, wanted.c.part == t.c.part)
            there = select(func.count()).select_from(t.join(wanted, its)).where(mine)
            kept = c.execute(there).scalar_one()
            self._add(c, instance, order, wanted)
            gone = delete(t).where(here, ~select(literal(1)).select_from(wanted).where(same).exists())
            removed = c.execute(gone.returning(t.c.tablet, t.c.backend, t.c.bad_since, t.c.failed)).all()
            self._told(c, instance, removed)
            copies = sum(len(its.copies) for its in order.tablets)
            if c.execute(there).scalar_one() < copies:
                raise BadInput("a uid is another copy's, or that of one that was dropped: uids never come back")
            where = and_(mine, in_list(db, t.c.part, order.dropped))
            dropped = c.execute(update(t).where(where).values(**GONE)).rowcount if order.dropped else 0
            fold = db.t.binlog_fold
            of = and_(fold.c.instance == instance, fold.c.db == order.db, fold.c.tbl == order.table)
            c.execute(delete(fold).where(of, in_list(db, fold.c.part, order.dropped)))
        return Placed(added=copies - kept, kept=kept, removed=len(removed), dropped=dropped)

    def decommission(self, instance: str, backend: str) -> int:
        """Forget a backend with all of its copies: it will never come back; return how many there were.

        Raises:
            UnknownInstance, UnknownBackend: there is none.
            LastCopy: a tablet would be without a copy that is in order. Have one elsewhere first, or drop its table.
        """
        db, t, b = self._db, self._db.t.replica, self._db.t.backend
        with deciding(db, instance) as c:
            mine = and_(t.c.instance == instance, t.c.backend == backend)
            other, now = t.alias("other"), db.now(c)
            same = and_(other.c.instance == instance, other.c.tablet == t.c.tablet, other.c.backend != backend)
            elsewhere = and_(same, other.c.dropped.is_(False), well(other, now))
            alone = and_(mine, t.c.dropped.is_(False), ~select(other.c.uid).where(elsewhere).exists())
            if last := list(c.execute(select(t.c.tablet).where(alone).order_by(t.c.tablet).limit(5)).scalars()):
                raise LastCopy(
                    f"no copy of tablet {', '.join(last)} on another backend than {backend} is in order: have one "
                    "there first, or say that its table or partition is dropped"
                )
            gone = c.execute(delete(t).where(mine).returning(t.c.tablet, t.c.backend, t.c.bad_since, t.c.failed)).all()
            self._told(c, instance, gone)
            known = c.execute(delete(b).where(b.c.instance == instance, b.c.name == backend)).rowcount
            if not gone and not known:
                raise UnknownBackend(backend)
            return len(gone)

    def backends(self, instance: str) -> Sequence[Backend]:
        """Return the backends that have reported or pulled, by name."""
        b = self._db.t.backend
        with self._db.read() as c:
            found = c.execute(select(b).where(b.c.instance == instance).order_by(b.c.name))
            return [Backend(**r._mapping) for r in found]

    def _wanted(self, order: Placement) -> FromClause:
        data = [
            {"uid": copy.uid, "backend": copy.backend, "tablet": its.tablet, "part": its.part}
            for its in order.tablets
            for copy in its.copies
        ]
        return as_rows(self._db, data, uid=TEXT, backend=TEXT, tablet=TEXT, part=TEXT)

    def _told(self, c: Connection, instance: str, gone: Sequence[Any]) -> None:
        """Tell followers that a copy with which something was wrong is no more: another one may be in its place."""
        told: dict[str, list[ReplicaOutcome]] = {}
        for row in gone:
            if row.bad_since is not None or row.failed >= 0:
                told.setdefault(row.backend, []).append(ReplicaOutcome(tablet=row.tablet, kind=ReportKind.HEALTHY))
        for backend, reports in sorted(told.items()):
            JournalStore(self._db).append(c, instance, Op.BACKEND_REPLICAS_INFO, replicas_info(backend, reports))

    def _add(self, c: Connection, instance: str, order: Placement, wanted: FromClause) -> None:
        """Add copies that are new. What was cut before they came, they are to let go too."""
        db, t, fold = self._db, self._db.t.replica, self._db.t.binlog_fold
        whose = and_(fold.c.instance == instance, fold.c.db == order.db, fold.c.tbl == order.table)
        cut = and_(whose, fold.c.part == wanted.c.part)
        its = [wanted.c[n] for n in ("uid", "backend", "tablet", "part")]
        same = [literal(v) for v in (instance, order.db, order.table)]
        until = literal(db.now(c), t.c.fresh_until.type)
        other = and_(t.c.instance == instance, t.c.tablet == wanted.c.tablet)
        gone = func.coalesce(select(func.max(t.c.gone)).where(other).scalar_subquery(), -1)
        values = [*same, *its, until, func.coalesce(fold.c.version, -1), gone]
        new = select(*values).select_from(wanted.outerjoin(fold, cut))
        names = ["instance", "db", "tbl", "uid", "backend", "tablet", "part", "fresh_until", "desired", "gone"]
        into = upsert(db, t).from_select(names, new.where(wanted.c.uid != ""))
        c.execute(into.on_conflict_do_nothing())


def _check(order: Placement) -> None:
    check_names(order.db, order.table)
    if not order.table:
        raise BadInput("name a table")
    tablets = [its.tablet for its in order.tablets]
    copies = [copy for its in order.tablets for copy in its.copies]
    for what, ids in (
        ("tablet", tablets),
        ("uid", [copy.uid for copy in copies]),
        ("backend", [copy.backend for copy in copies]),
        ("partition", [*(its.part for its in order.tablets), *order.dropped]),
    ):
        for id_ in set(ids):
            if not 0 < len(id_) <= 128 or not ID_CHARACTERS.issuperset(id_):
                raise BadInput(f"{id_[:40]!r} is no id of a {what}: 1 to 128 of letters, digits, '.' and '-'")
    if len(set(tablets)) < len(tablets):
        raise BadInput("a tablet is named twice")
    if len({(copy.backend, copy.uid) for copy in copies}) < len(copies):
        raise BadInput("a copy is named twice")
    for its in order.tablets:
        if not its.copies:
            raise BadInput(f"tablet {its.tablet} has no copy: nothing would keep what it needs")
        if len({copy.backend for copy in its.copies}) < len(its.copies):
            raise BadInput(f"tablet {its.tablet} is named twice on one backend")
    if both := {its.part for its in order.tablets} & set(order.dropped):
        raise BadInput(f"partition {min(both)} is named as it is, and as dropped")
