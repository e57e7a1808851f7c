"""Store reports of backends, each by one statement; read replicas and what is wrong with them; build snapshots."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, Text, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.replication.errors import BootTooHigh, UnknownTablet
from sexton.replication.journal.model import (
    JournalSnapshot,
    LogWatermark,
    Op,
    ReportKind,
    UnhealthyReplica,
    replicas_info,
)
from sexton.replication.journal.store import JournalStore
from sexton.replication.log_rows import check_names
from sexton.replication.replicas import policy
from sexton.replication.replicas.model import (
    MAX_BOOT,
    MAX_BOOT_STEP,
    Replica,
    ReplicaReport,
    ReplicaSettings,
    ReportReceipt,
)
from sexton.replication.replicas.policy import BY_LIMIT, Judged, ReportedVersions
from sexton.replication.replicas.sql.rows import committed_versions, healthy

JUDGED_COLUMNS = (
    *("continuous_version", "failed", "succeeded", "needs", "highest"),
    *("bad_since", "gap_since", "crossing", "full_copy", "full_copy_at", "reported_schema_hash"),
)
"""The columns of a replica that the judgement of a report changes."""


class ReportStore:
    """Accepts the reports of backends."""

    def __init__(self, db: Database, settings: ReplicaSettings) -> None:
        self._db, self._settings = db, settings
        self._journal = JournalStore(db)

    def accept(self, instance: str, backend: str, report: ReplicaReport) -> ReportReceipt:
        """Store a backend's report on its replicas. Unknown replicas and outdated reports are ignored.

        A replica that the report does not name stays as it is until its last report is no longer fresh. The report is
        stored under the guard: a claim or a grant is either before it, or respects it.

        Raises:
            UnknownInstance: no such instance.
            BadInput: a number or a range is impossible, or a replica appears twice.
            BootTooHigh: later reports of the backend could not be newer.
        """
        versions, t, b = _check_report(backend, report), self._db.t.replica, self._db.t.backend
        with deciding(self._db, instance) as c:
            reached("report.guarded")
            this_backend = and_(b.c.instance == instance, b.c.name == backend)
            last = c.execute(select(b.c.boot).where(this_backend)).scalar()
            if last is not None and last >= 0 and report.boot > last + MAX_BOOT_STEP:
                raise BootTooHigh(
                    f"boot {report.boot} of backend {backend} is more than {MAX_BOOT_STEP:,} above {last}, its last "
                    "one: add one at each start, or send the instant of the start in ms"
                )
            now = self._db.now(c)
            live = and_(t.c.instance == instance, t.c.backend == backend, t.c.dropped.is_(False))
            reported = select(t).where(live, in_list(t.c.uid, versions))
            known = {row.uid: Replica(**row._mapping) for row in c.execute(reported)}
            sent_at = (report.boot, report.sequence)
            to_update = {uid: replica for uid, replica in known.items() if (replica.boot, replica.sequence) < sent_at}
            judged = [
                policy.apply_report(replica, versions[uid], now, self._settings) for uid, replica in to_update.items()
            ]
            self._store(c, instance, backend, report, judged, now)
            outcomes = [judgement.outcome for judgement in judged if judgement.outcome is not None]
            if outcomes:
                self._journal.append(c, instance, Op.BACKEND_REPLICAS_INFO, replicas_info(backend, outcomes))
            reached("report.written")
        kinds = Counter(outcome.kind for outcome in outcomes)
        return ReportReceipt(
            taken=len(judged),
            stale=len(known) - len(to_update),
            unknown=len(versions) - len(known),
            bad=kinds[ReportKind.BAD],
            missing=kinds[ReportKind.MISSING_VERSION],
            healthy=kinds[ReportKind.HEALTHY],
        )

    def _store(
        self, c: Connection, instance: str, backend: str, report: ReplicaReport, judged: Sequence[Judged], now: int
    ) -> None:
        """Store which report the backend has sent last, and the replicas that it changes."""
        t, b = self._db.t.replica, self._db.t.backend
        sent = {"boot": report.boot, "sequence": report.sequence}
        last_report = sent | {"reported_at": now}
        is_later = (b.c.boot < report.boot) | and_(b.c.boot == report.boot, b.c.sequence < report.sequence)
        known = upsert(b).values(instance=instance, name=backend, **last_report)
        c.execute(known.on_conflict_do_update(index_elements=["instance", "name"], set_=last_report, where=is_later))
        if not judged:
            return
        by_uid = {tablet.uid: tablet for tablet in report.tablets}
        types = {name: t.c[name].type for name in ("uid", *JUDGED_COLUMNS, "row_count", "bytes")}
        data = []
        for replica, _ in judged:
            columns = {name: getattr(replica, name) for name in ("uid", *JUDGED_COLUMNS)}
            data.append(columns | {"row_count": by_uid[replica.uid].rows, "bytes": by_uid[replica.uid].bytes})
        new = as_rows(data, **types)
        values: dict[str, Any] = {name: new.c[name] for name in types if name != "uid"}
        values |= sent | {"fresh_until": now + self._settings.freshness_seconds * 1000}
        same_copy = and_(t.c.instance == instance, t.c.backend == backend, t.c.uid == new.c.uid)
        c.execute(update(t).where(same_copy).values(**values))


def _check_report(backend: str, report: ReplicaReport) -> dict[str, ReportedVersions]:
    """Check a report; return the reported versions by uid."""
    check_names(backend, *(tablet.uid for tablet in report.tablets))
    versions = {tablet.uid: policy.reported_versions(tablet) for tablet in report.tablets}
    if len(versions) < len(report.tablets):
        raise BadInput("a replica appears twice in the report: send each uid once")
    if max(report.boot, report.sequence) > MAX_BOOT:
        raise BootTooHigh(
            f"boot {report.boot} and sequence {report.sequence} of backend {backend}: the last of each is {MAX_BOOT}; "
            "add one to boot at each start, and to sequence with each page"
        )
    return versions


class ReplicaStore:
    """The replicas of one deployment."""

    def __init__(self, db: Database, settings: ReplicaSettings) -> None:
        self._db, self._settings = db, settings

    def tablet(self, instance: str, tablet: str) -> tuple[Sequence[Replica], int]:
        """Return the replicas of a tablet, and the time to judge them by in ms; raises ``UnknownTablet``."""
        t = self._db.t.replica
        with self._db.read() as c:
            of_tablet = select(t).where(t.c.instance == instance, t.c.tablet == tablet).order_by(t.c.backend)
            replicas = [Replica(**row._mapping) for row in c.execute(of_tablet)]
            if not replicas:
                raise UnknownTablet(tablet)
            return replicas, self._db.now(c)

    def list_unhealthy(self, instance: str, limit: int = 100, *, every: bool = False) -> tuple[Sequence[Replica], int]:
        """Return the unhealthy replicas, or all, by tablet; and the time to judge them by in ms."""
        t = self._db.t.replica
        with self._db.read() as c:
            now = self._db.now(c)
            faults = [t.c.bad_since.is_not(None), t.c.gap_since.is_not(None), t.c.fresh_until <= now]
            faults += [t.c.full_copy != "", t.c.problem != "", t.c.crossing]
            replicas = select(t).where(t.c.instance == instance, t.c.dropped.is_(False))
            if not every:
                replicas = replicas.where(or_(*faults))
            page = replicas.order_by(t.c.tablet, t.c.backend).limit(limit)
            return [Replica(**row._mapping) for row in c.execute(page)], now

    def full_copy(self, instance: str, tablet: str, backend: str, why: str) -> Replica:
        """Mark a replica FULL_COPY_ONLY: only a full copy can repair it, so it no longer blocks deletion of versions.

        It counts again when a report shows that it lacks no version that may have been deleted, and has the newest one
        that any replica had now. A version that the owner never committed does not count for that.

        Raises:
            UnknownInstance, UnknownTablet: it does not exist.
            BadInput: the reason is empty.
        """
        check_names(tablet, backend, why)
        if not why.strip():
            raise BadInput("the reason is empty: give one, so that others know why the replica no longer counts")
        t = self._db.t.replica
        this_replica = and_(
            t.c.instance == instance, t.c.tablet == tablet, t.c.backend == backend, t.c.dropped.is_(False)
        )
        with deciding(self._db, instance) as c:
            values = {"full_copy": why.strip(), "full_copy_at": self._db.now(c), "full_copy_until": _newest_version(t)}
            row = c.execute(update(t).where(this_replica).values(**values).returning(t)).one_or_none()
            if row is None:
                raise UnknownTablet(tablet, backend)
            replica = Replica(**row._mapping)
            return next(iter(self._limit_full_copies(c, instance, [replica])), replica)

    def give_up(self, instance: str) -> int:
        """Mark replicas FULL_COPY_ONLY that were unhealthy for longer than the hold limit; return how many.

        Only if another replica of the tablet is healthy: the last good one counts, however long it is away.
        """
        t = self._db.t.replica
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            limit = now - self._settings.hold_limit_seconds * 1000
            unhealthy_for_long = or_(t.c.fresh_until <= limit, t.c.bad_since <= limit, t.c.gap_since <= limit)
            other = t.alias("other")
            same_tablet = and_(other.c.instance == t.c.instance, other.c.tablet == t.c.tablet, other.c.uid != t.c.uid)
            healthy_elsewhere = select(other.c.uid).where(same_tablet, healthy(other, now)).exists()
            counting = and_(t.c.instance == instance, t.c.full_copy == "", t.c.dropped.is_(False))
            values = {"full_copy": BY_LIMIT, "full_copy_at": now, "full_copy_until": _newest_version(t)}
            given_up = update(t).where(counting, unhealthy_for_long, healthy_elsewhere).values(**values).returning(t)
            replicas = [Replica(**row._mapping) for row in c.execute(given_up)]
            self._limit_full_copies(c, instance, replicas)
            return len(replicas)

    def _limit_full_copies(self, c: Connection, instance: str, replicas: Sequence[Replica]) -> Sequence[Replica]:
        """Let no replica wait for a version that another backend made up; return the replicas that are changed."""
        t, committed = self._db.t.replica, committed_versions(self._db, c, instance, replicas)
        bounds = [policy.full_copy_bound(r, committed.get((r.db, r.tbl, r.part))) for r in replicas]
        limited = [
            replica.model_copy(update={"full_copy_until": bound})
            for replica, bound in zip(replicas, bounds, strict=True)
            if bound < replica.full_copy_until
        ]
        if limited:
            data = [r.model_dump(include={"uid", "backend", "full_copy_until"}) for r in limited]
            new = as_rows(data, uid=Text(), backend=Text(), full_copy_until=BigInteger())
            same_copy = and_(t.c.instance == instance, t.c.uid == new.c.uid, t.c.backend == new.c.backend)
            c.execute(update(t).where(same_copy).values(full_copy_until=new.c.full_copy_until))
        return limited

    def snapshot(self, instance: str) -> JournalSnapshot:
        """Return the state from which a follower begins if it has missed entries of the journal."""
        t, log = self._db.t.replica, self._db.t.binlog_log
        faulty = or_(t.c.bad_since.is_not(None), t.c.failed >= 0)
        replicas = select(t).where(t.c.instance == instance, t.c.dropped.is_(False), faulty).order_by(t.c.uid)
        logs = select(log).where(log.c.instance == instance).order_by(log.c.db, log.c.tbl)
        with self._db.snapshot() as c:
            head, _ = JournalStore(self._db).bounds(c, instance)
            outcomes = [outcome for row in c.execute(replicas) for outcome in policy.standing(Replica(**row._mapping))]
            watermarks = [
                LogWatermark(
                    db=row.db, tbl=row.tbl, seq=max(row.watermark, row.starts_after), dropped=row.dropped_at is not None
                )
                for row in c.execute(logs)
            ]
        unhealthy = tuple(UnhealthyReplica(backend=backend, outcome=outcome) for backend, outcome in outcomes)
        return JournalSnapshot(seq=head, marks=tuple(watermarks), replicas=unhealthy)


def _newest_version(t: Table) -> ColumnElement[int]:
    """Return the highest version up to which any replica of the updated row's tablet has all versions."""
    other = t.alias("newest")
    same_tablet = and_(other.c.instance == t.c.instance, other.c.tablet == t.c.tablet)
    return select(func.max(other.c.continuous_version)).where(same_tablet).scalar_subquery()
