"""Accept reports of backends: judge each replica, store all by one statement, and journal the changes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import as_rows, in_list
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.replication.errors import BootTooHigh
from sexton.replication.journal.model import Op, ReportKind, replicas_info
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas import policy
from sexton.replication.replicas.model import (
    MAX_BOOT,
    MAX_BOOT_STEP,
    Replica,
    ReplicaReport,
    ReplicaSettings,
    ReportReceipt,
)
from sexton.replication.replicas.policy import Judged, ReportedVersions
from sexton.replication.sql.log_rows import check_names

JUDGED_COLUMNS = (
    *("continuous_version", "failed", "succeeded", "needs", "highest"),
    *("bad_since", "gap_since", "crossing", "full_copy", "full_copy_at"),
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
        versions, t = _check_report(backend, report), self._db.t.replica
        with deciding(self._db, instance) as c:
            reached("report.guarded")
            self._check_boot(c, instance, backend, report)
            now = self._db.now(c)
            live = and_(t.c.instance == instance, t.c.backend == backend, t.c.dropped.is_(False))
            reported = select(t).where(live, in_list(t.c.uid, versions))
            known = {row.uid: Replica(**row._mapping) for row in c.execute(reported)}
            sent_at = (report.boot, report.sequence)
            to_update = {uid: replica for uid, replica in known.items() if (replica.boot, replica.sequence) < sent_at}
            judged = [
                policy.apply_report(replica, versions[uid], now, self._settings) for uid, replica in to_update.items()
            ]
            self._record_backend(c, instance, backend, report, now)
            if judged:
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

    def _check_boot(self, c: Connection, instance: str, backend: str, report: ReplicaReport) -> None:
        t = self._db.t.backend
        last = c.execute(select(t.c.boot).where(t.c.instance == instance, t.c.name == backend)).scalar()
        if last is not None and last >= 0 and report.boot > last + MAX_BOOT_STEP:
            raise BootTooHigh(
                f"boot {report.boot} of backend {backend} is more than {MAX_BOOT_STEP:,} above {last}, its last one: "
                "add one at each start, or send the instant of the start in ms"
            )

    def _record_backend(self, c: Connection, instance: str, backend: str, report: ReplicaReport, now: int) -> None:
        t = self._db.t.backend
        values = {"boot": report.boot, "sequence": report.sequence, "reported_at": now}
        new = upsert(t).values(instance=instance, name=backend, **values)
        is_later = (t.c.boot < report.boot) | and_(t.c.boot == report.boot, t.c.sequence < report.sequence)
        c.execute(new.on_conflict_do_update(index_elements=["instance", "name"], set_=values, where=is_later))

    def _store(
        self, c: Connection, instance: str, backend: str, report: ReplicaReport, judged: Sequence[Judged], now: int
    ) -> None:
        t = self._db.t.replica
        by_uid = {tablet.uid: tablet for tablet in report.tablets}
        types = {name: t.c[name].type for name in ("uid", *JUDGED_COLUMNS, "row_count", "bytes")}
        data = []
        for replica, _ in judged:
            columns = {name: getattr(replica, name) for name in ("uid", *JUDGED_COLUMNS)}
            data.append(columns | {"row_count": by_uid[replica.uid].rows, "bytes": by_uid[replica.uid].bytes})
        new = as_rows(data, **types)
        values: dict[str, Any] = {name: new.c[name] for name in types if name != "uid"}
        values |= {"boot": report.boot, "sequence": report.sequence}
        values |= {"fresh_until": now + self._settings.freshness_seconds * 1000}
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
