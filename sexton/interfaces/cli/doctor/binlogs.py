"""What the doctor asks about binlogs and copies of tablets: is what has expired cut, and does it go from backends?"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.interfaces.cli.context import controls
from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.interfaces.cli.output import many

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.replication.binlog.sql.figures import LastLook, LogCounts
    from sexton.replication.replicas.model import BackendStanding, RetainingReplica

NAMED = 5
LATE_LOOKS = 3
"""After so many intervals without one nobody looks any more."""


def examine_binlogs(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield findings about binlogs and replicas; nothing where there are none."""
    from sexton.database.engine import Database
    from sexton.operators.registry.store import Registry
    from sexton.replication.binlog.sql.figures import last_look, tally
    from sexton.replication.replicas.sql.figures import holders, standings

    db = Database.open(settings.database_url)
    try:
        logs: list[tuple[str, str]] = []
        copies: list[tuple[str, str]] = []
        any_logs = any_copies = False
        for instance in Registry(db).instances():
            with db.read() as c:
                now, found, look = db.now(c), tally(db, c, instance.id), last_look(db, c, instance.id)
                backends, lacks = standings(db, c, instance.id), holders(db, c, instance.id)
                rests = instance.mode != "enabled" or controls(settings, db).halt(c, instance.id) is not None
            any_logs, any_copies = any_logs or found.databases > 0, any_copies or bool(backends)
            if found.databases:
                late = _late(settings, look, now) if found.logs and not rests else ""
                logs += [(state, f"{instance.id}: {said}") for state, said in _logs(found, look, late)]
            copies += [(state, f"{instance.id}: {said}") for state, said in _copies(settings, backends, lacks, now)]
    finally:
        db.close()
    if any_logs:
        yield _finding("binlogs", logs, "what has expired is cut", "see: sexton binlog list, sexton binlog consumers")
    if any_copies:
        yield _finding(
            "replicas", copies, "every copy is well, every backend is heard of", "see: sexton replica backends"
        )


def _finding(about: str, said: list[tuple[str, str]], fine: str, todo: str) -> DoctorFinding:
    if not said:
        return DoctorFinding("OK", about, fine)
    worst = sorted(said, key=lambda its: its[0] != "FAIL")
    more = f"; and {len(worst) - NAMED} more" if len(worst) > NAMED else ""
    detail = "; ".join(its for _, its in worst[:NAMED]) + more
    return DoctorFinding("FAIL" if worst[0][0] == "FAIL" else "WARN", about, detail, todo)


def _late(settings: "Settings", look: "LastLook", now: int) -> str:
    limit = LATE_LOOKS * settings.binlog_terms().interval_seconds
    if look.looked_at is None:
        return "nobody has looked yet: does the schedule run?"
    if now - look.looked_at > limit * 1000:
        return f"nobody has looked for {(now - look.looked_at) // 1000} s: does the schedule run?"
    return ""


def _logs(found: "LogCounts", look: "LastLook", late: str) -> Iterator[tuple[str, str]]:
    if found.lost:
        yield "FAIL", f"{many(found.lost, 'consumer')} LOST: what it lacks may go, so it must copy anew, or be removed"
    if look.refused:
        yield "WARN", f"nothing was cut at the last look: {look.refused}"
    if found.waiting:
        yield "WARN", f"{many(found.waiting, 'cut')} waiting for approval"
    if late:
        yield "WARN", late


def _copies(
    settings: "Settings", backends: "Sequence[BackendStanding]", lacks: "Sequence[RetainingReplica]", now: int
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with copies, a line for each kind of it."""
    for its in lacks:
        if not its.backend:
            yield "FAIL", f"of {many(its.copies, 'tablet')} {its.why}"
    if wrong := sorted((b for b in backends if b.problems), key=lambda b: -b.quarantined):
        one, apart = f"e.g. {wrong[0].backend}: {wrong[0].problem}", sum(b.quarantined for b in wrong)
        of = f", {apart:,} of them QUARANTINED until somebody has looked" if apart else ""
        problems = f"{many(sum(b.problems for b in wrong), 'copy', 'copies')} did not let go as they should{of}, {one}"
        yield "FAIL" if apart else "WARN", problems
    freshness = settings.replica_terms().freshness_seconds * 1000
    silent = [b.backend for b in backends if b.copies and (b.reported_at is None or b.reported_at <= now - freshness)]
    if silent:
        yield "WARN", f"no fresh report from {_names(silent)}: nothing of their tablets goes"
    patience = LATE_LOOKS * settings.binlog_terms().interval_seconds * 1000
    idle = [b.backend for b in backends if b.behind and (b.pulled_at is None or b.pulled_at <= now - patience)]
    if idle:
        yield "WARN", f"backends have something to let go and did not ask for it lately: {_names(idle)}"
    bad, missing = sum(b.bad for b in backends), sum(b.missing for b in backends)
    if bad or missing:
        yield "WARN", f"{many(bad, 'copy', 'copies')} bad, {missing:,} with missing versions; see: sexton replica list"
    if limit := sum(b.by_limit for b in backends):
        yield "WARN", f"{many(limit, 'copy', 'copies')} FULL_COPY_ONLY by the hold limit: repair them by a full copy"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
