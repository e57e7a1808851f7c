"""Hand cuts to backends: what they should delete (desired), may delete (granted), and have deleted (acknowledged).

A backend pulls. When it asks for a page, Sexton decides under the guard what it may delete: up to the cuts of the
partition, and only versions that no replica of the tablet still needs. A grant is never taken back.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, and_, case, delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list
from sexton.kernel.crash_points import reached
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.operators.controls.store import ControlStore
from sexton.replication.agent.model import ID, CutDone, GrantedCut, SweepOutcome
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, AcknowledgeResult, CutPage
from sexton.replication.replicas.sql.rows import needed_versions, record_released_versions
from sexton.replication.sql.log_rows import check_names

PAGE_CUTS = 1_000
PARTITIONS_AT_ONCE = 100
QUEUE_MS = 7 * 86_400_000
"""A workflow notifies a backend's worker of cuts for this long after its last pull; later it must pull by itself."""
DETAIL_CHARACTERS = 500


class Sender:
    """Hands cuts to the backends of one deployment."""

    def __init__(self, db: Database, controls: ControlStore) -> None:
        self._db, self._controls = db, controls

    def propagate(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Record in the replicas what was cut of their partitions since the last run; return how many were changed.

        One statement per some hundred partitions, however many tablets they have. It decides nothing.
        """
        changed = 0
        while (replicas := self._propagate_some(instance)) is not None:
            changed += replicas
            heartbeat()
        return changed

    def _propagate_some(self, instance: str) -> int | None:
        """Raise ``desired`` of the replicas of some partitions; return how many, None if no partition is left."""
        db, t, fold = self._db, self._db.t.replica, self._db.t.binlog_partition_cut
        with deciding(db, instance) as c:
            new = select(fold.c.db, fold.c.tbl, fold.c.part).where(
                fold.c.instance == instance, fold.c.propagated.is_(False)
            )
            keys = [
                {"name": row.db, "tbl": row.tbl, "part": row.part} for row in c.execute(new.limit(PARTITIONS_AT_ONCE))
            ]
            if not keys:
                return None
            chosen = as_rows(keys, name=Text(), tbl=Text(), part=Text())
            of_table = and_(fold.c.instance == instance, fold.c.db == chosen.c.name, fold.c.tbl == chosen.c.tbl)
            is_chosen = and_(of_table, fold.c.part == chosen.c.part)
            cuts = select(fold.c.db, fold.c.tbl, fold.c.part, fold.c.version).join_from(fold, chosen, is_chosen)
            cut = cuts.subquery()
            same_partition = and_(t.c.instance == instance, *(t.c[n] == cut.c[n] for n in ("db", "tbl", "part")))
            lower = and_(same_partition, t.c.desired < cut.c.version, t.c.dropped.is_(False))
            changed = c.execute(update(t).where(lower).values(desired=cut.c.version)).rowcount
            c.execute(update(fold).where(is_chosen).values(propagated=True))
            reached("binlog.spread")
        return max(0, changed)

    def page(
        self, instance: str, backend: str, after: str = "", limit: int = PAGE_CUTS, *, queue: bool = False
    ) -> CutPage:
        """Grant what a backend may delete, for a page of its replicas.

        Args:
            instance: the instance of the backend.
            backend: the backend that pulls.
            after: only replicas whose uids sort after this one.
            limit: how many replicas are checked; some of them may have to retain everything.
            queue: whether a Sexton worker beside the backend pulls, which also serves a task queue.

        Raises:
            UnknownInstance: no such instance.
        """
        check_names(backend, after)
        t, b = self._db.t.replica, self._db.t.backend
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            values = {"pulled_at": now} | ({"queue_at": now} if queue else {})
            pull = upsert(b).values(instance=instance, name=backend, **values)
            c.execute(pull.on_conflict_do_update(index_elements=["instance", "name"], set_=values))
            try:
                self._controls.check_in(c, instance)
            except (Halted, NotEnabled) as e:
                return CutPage(why=str(e))
            limit = max(1, min(limit, PAGE_CUTS))
            on_backend = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid > after)
            columns = (t.c.uid, t.c.tablet, t.c.desired, t.c.granted, t.c.acked, t.c.dropped)
            behind = select(*columns).where(on_backend, t.c.desired > t.c.acked)
            due = c.execute(behind.order_by(t.c.uid).limit(limit)).all()
            granted = self._grant(c, instance, backend, due)
            reached("binlog.granted")
        cuts = [
            GrantedCut(uid=row.uid, tablet=row.tablet, version=granted[row.uid])
            for row in due
            if granted[row.uid] > row.acked
        ]
        return CutPage(cuts=tuple(cuts), next=due[-1].uid if len(due) == limit else "")

    def _grant(self, c: Connection, instance: str, backend: str, due: Sequence[Any]) -> Mapping[str, int]:
        """Decide and store up to which version each replica's backend may delete; return it by uid."""
        live_tablets = sorted({row.tablet for row in due if not row.dropped})
        needed = needed_versions(self._db, c, instance, live_tablets)
        granted: dict[str, int] = {}
        for row in due:
            allowed = row.desired if row.dropped else min(row.desired, needed[row.tablet].version - 1)
            granted[row.uid] = max(row.granted, allowed)
        raised = [row for row in due if granted[row.uid] > row.granted]
        if raised:
            t = self._db.t.replica
            data = [{"uid": row.uid, "granted": granted[row.uid]} for row in raised]
            new = as_rows(data, uid=Text(), granted=BigInteger())
            same_copy = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid == new.c.uid)
            c.execute(update(t).where(same_copy).values(granted=new.c.granted))
            released = {row.tablet: granted[row.uid] for row in raised if not row.dropped}
            record_released_versions(self._db, c, instance, released)
        return granted

    def acknowledge(self, instance: str, backend: str, done: Sequence[CutDone]) -> AcknowledgeResult:
        """Record what a backend has deleted. More than was granted is ignored; less than before changes nothing.

        Taken under the guard, as every write to rows of replicas, so that no deadlock is possible.

        Raises:
            UnknownInstance: no such instance.
        """
        check_names(backend)
        by_uid = _acknowledgements(done)
        if not by_uid:
            return AcknowledgeResult(ignored=len(done))
        db, t = self._db, self._db.t.replica
        flags = {"well": BigInteger(), "unknown": BigInteger()}
        ack = as_rows(by_uid.values(), uid=Text(), acked=BigInteger(), problem=Text(), **flags)
        on_backend = and_(t.c.instance == instance, t.c.backend == backend)
        # A backend that reports a problem has not deleted all that was granted, whatever version it names.
        deleted = case((ack.c.well == 1, ack.c.acked), (ack.c.acked < t.c.granted, ack.c.acked), else_=t.c.granted - 1)
        acked = case((deleted > t.c.acked, deleted), else_=t.c.acked)
        granted_copy = and_(on_backend, t.c.uid == ack.c.uid, ack.c.acked <= t.c.granted)
        # A dropped replica is finished when all of it is deleted, or its backend does not have it at all.
        backend_lacks_it = select(ack.c.uid).where(ack.c.uid == t.c.uid, ack.c.unknown == 1).exists()
        finished = and_(t.c.dropped, t.c.granted >= MAX_COMMIT_SEQ, or_(t.c.acked >= MAX_COMMIT_SEQ, backend_lacks_it))
        with deciding(db, instance) as c:
            changed = update(t).where(granted_copy).values(acked=acked, problem=ack.c.problem)
            taken = c.execute(changed).rowcount
            c.execute(delete(t).where(on_backend, in_list(t.c.uid, list(by_uid)), finished))
        return AcknowledgeResult(taken=taken, ignored=len(done) - taken)

    def waiting(self, instance: str, after: str, limit: int) -> Sequence[str]:
        """Return by name the backends that have binlogs to delete and beside which a Sexton worker runs."""
        t, b = self._db.t.replica, self._db.t.backend
        due = and_(t.c.instance == b.c.instance, t.c.backend == b.c.name, t.c.desired > t.c.acked)
        with self._db.read() as c:
            now = self._db.now(c)
            with_worker = and_(b.c.instance == instance, b.c.queue_at > now - QUEUE_MS, b.c.name > after)
            names = select(b.c.name).where(with_worker, select(t.c.uid).where(due).exists())
            return list(c.execute(names.order_by(b.c.name).limit(limit)).scalars())


def _acknowledgements(done: Sequence[CutDone]) -> Mapping[str, Mapping[str, Any]]:
    """Return the acknowledgements by uid as rows; of several for one uid the last one counts."""
    by_uid = {}
    for cut in done:
        if re.fullmatch(ID, cut.uid):
            well = cut.outcome == SweepOutcome.DONE
            problem = "" if well else f"{_printable(cut.outcome)}: {_printable(cut.detail)}".removesuffix(": ")
            by_uid[cut.uid] = {
                "uid": cut.uid,
                "acked": max(-1, min(cut.version, MAX_COMMIT_SEQ)),
                "problem": problem,
                "well": int(well),
                "unknown": int(cut.outcome == SweepOutcome.UNKNOWN),
            }
    return by_uid


def _printable(text: str) -> str:
    """Return a backend's text without unprintable characters, cut to what a column holds."""
    return "".join(ch if ch.isprintable() else " " for ch in text)[:DETAIL_CHARACTERS]
