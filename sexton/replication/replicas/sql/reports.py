"""What backends say of their copies: judged one by one, stored by one statement, told to followers in one entry."""

from collections import Counter
from typing import Any

from sqlalchemy import BigInteger, Connection, Integer, Text, and_, case, func, literal, null, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list, upsert
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.sql.config import check_names
from sexton.replication.journal.model import Op, ReportKind, replicas_info
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas import policy
from sexton.replication.replicas.model import Replica, ReplicaReport, ReplicaSettings, ReportReceipt
from sexton.replication.replicas.policy import Judged
from sexton.replication.replicas.sql.rows import replica
from sexton.replication.replicas.version_graph import HIGHEST

NUMBERS = ("version", "failed", "succeeded", "needs", "highest", "row_count", "bytes")


class ReportStore:
    """Takes reports."""

    def __init__(self, db: Database, terms: ReplicaSettings) -> None:
        self._db, self._terms = db, terms
        self._journal = JournalStore(db)

    def hear(self, instance: str, backend: str, report: ReplicaReport) -> ReportReceipt:
        """Take what a backend says of its copies. What it says of others, or said before, is ignored.

        A copy that it does not name goes on being what it was, until that is no longer fresh. Taken under the guard: a
        claim or a grant comes before what is said here, or heeds it.

        Raises:
            UnknownInstance: no such instance.
            BadInput: a number or a range cannot be, or a copy is named twice.
        """
        check_names(backend, *(its.uid for its in report.tablets))
        said = {its.uid: policy.seen(its) for its in report.tablets}
        if len(said) < len(report.tablets):
            raise BadInput("a report names a copy twice")
        if not (0 <= report.boot <= HIGHEST and 0 <= report.sequence <= HIGHEST):
            raise BadInput(f"boot and sequence of a report are 0 to {HIGHEST}")
        if any(not (0 <= its.rows <= HIGHEST and 0 <= its.bytes <= HIGHEST) for its in report.tablets):
            raise BadInput(f"rows and bytes of a copy are 0 to {HIGHEST}")
        sizes = {its.uid: (its.rows, its.bytes) for its in report.tablets}
        db = self._db
        with deciding(db, instance) as c:
            reached("report.guarded")
            now = db.now(c)
            here = self._here(c, instance, backend, list(said))
            fresh = {u: r for u, r in here.items() if (r.boot, r.sequence) < (report.boot, report.sequence)}
            judged = [policy.reported(r, said[uid], now, self._terms) for uid, r in fresh.items()]
            self._note(c, instance, backend, report, now)
            self._store(c, instance, backend, report, judged, sizes, now)
            told = [its for j in judged for its in j.told]
            if told:
                self._journal.append(c, instance, Op.BACKEND_REPLICAS_INFO, replicas_info(backend, told))
            reached("report.written")
        kinds = Counter(its.kind for its in told)
        well = sum(1 for j in judged if j.told and j.told[-1].kind == ReportKind.HEALTHY)
        return ReportReceipt(
            taken=len(judged),
            stale=len(here) - len(fresh),
            unknown=len(said) - len(here),
            bad=kinds[ReportKind.BAD],
            missing=kinds[ReportKind.MISSING_VERSION],
            healthy=well,
        )

    def _here(self, c: Connection, instance: str, backend: str, uids: list[str]) -> dict[str, Replica]:
        t = self._db.t.replica
        mine = and_(t.c.instance == instance, t.c.backend == backend, t.c.dropped.is_(False))
        return {r.uid: replica(r) for r in c.execute(select(t).where(mine, in_list(self._db, t.c.uid, uids)))}

    def _note(self, c: Connection, instance: str, backend: str, report: ReplicaReport, now: int) -> None:
        t = self._db.t.backend
        values = {"boot": report.boot, "sequence": report.sequence, "reported_at": now}
        new = upsert(self._db, t).values(instance=instance, name=backend, **values)
        later = (t.c.boot < report.boot) | and_(t.c.boot == report.boot, t.c.sequence < report.sequence)
        c.execute(new.on_conflict_do_update(index_elements=["instance", "name"], set_=values, where=later))

    def _store(
        self,
        c: Connection,
        instance: str,
        backend: str,
        report: ReplicaReport,
        judged: list[Judged],
        sizes: dict[str, tuple[int, int]],
        now: int,
    ) -> None:
        if not judged:
            return
        t, data = self._db.t.replica, []
        for r in (j.replica for j in judged):
            row: dict[str, Any] = {n: getattr(r, n) for n in NUMBERS[:5]} | {"uid": r.uid}
            row |= {"row_count": sizes[r.uid][0], "bytes": sizes[r.uid][1]}
            # Instants do not travel in JSON: what is new began now, and the rest is as it was.
            row |= {"bad": int(r.bad), "gap": 0 if r.gap_since is None else 2 if r.gap_since == now else 1}
            data.append(row | {"crossing": int(r.crossing), "counts": int(not r.full_copy)})
        flag = Integer()
        flags = {"bad": flag, "gap": flag, "crossing": flag, "counts": flag}
        g = as_rows(self._db, data, uid=Text(), **dict.fromkeys(NUMBERS, BigInteger()), **flags)
        values: dict[str, Any] = {n: g.c[n] for n in NUMBERS}
        values |= {"crossing": g.c.crossing == 1, "boot": report.boot, "sequence": report.sequence}
        values |= {"bad_since": case((g.c.bad == 1, func.coalesce(t.c.bad_since, _at(t, now))), else_=null())}
        values |= {"gap_since": case((g.c.gap == 2, _at(t, now)), (g.c.gap == 1, t.c.gap_since), else_=null())}
        values |= {"full_copy": case((g.c.counts == 1, ""), else_=t.c.full_copy)}
        values |= {"full_copy_at": case((g.c.counts == 1, null()), else_=t.c.full_copy_at)}
        values |= {"fresh_until": now + self._terms.freshness_seconds * 1000}
        mine = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid == g.c.uid)
        c.execute(update(t).where(mine).values(**values))


def _at(t: Any, now: int) -> Any:
    return literal(now, t.c.fresh_until.type)
