"""Check topics (what blocks their purges?), binlogs (are records cut?) and replicas (do backends delete them?)."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sexton.insight.wording import quantity
from sexton.interfaces.cli.doctor.finding import MAX_NAMED, DoctorFinding, Problem, judged
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from sexton.operators.registry.store import Instance
    from sexton.replication.binlog.model import LastRun, LogCounts
    from sexton.replication.replicas.model import BackendStanding, RetainingReplica
    from sexton.runtime.stores import DeploymentStores
    from sexton.wal.model import Topic, WalSettings
    from sexton.wal.wal import WalService

MAX_EXAMINED = 100
PROBE_TOPIC = "sexton-doctor-asks"
"""The name of a topic that does not exist: any answer about it shows that the log is reachable."""
MISSING_TOPIC_REASONS = ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID")
LATE_INTERVALS = 3
"""A run, or a pull of a backend, is late after this many intervals."""


def examine_wal(stores: "DeploymentStores") -> Iterator[DoctorFinding]:
    """Yield findings about the topics that are purged; none if there are none and no log is configured."""
    wal = stores.wal
    topics = wal.store.topics("", MAX_EXAMINED, enabled=True)
    if topics or stores.settings.wal.kafka:
        yield _log(wal, topics)
    if topics:
        problems = list[Problem]()
        for topic in topics:
            if topic.quarantined:
                problems.append(Problem("FAIL", f"{topic.name}: {topic.quarantined}"))
            if topic.blocked or topic.fault:
                problems.append(Problem("WARN", f"{topic.name}: {', '.join(topic.blocked) or topic.fault}"))
            elif not topic.checked_at:
                problems.append(Problem("WARN", f"{topic.name}: not checked yet"))
        for name, count in wal.store.lost([t.name for t in topics]).items():
            problems.append(Problem("FAIL", f"{name}: LOSS in {quantity(count, 'region')}"))
        yield judged("purges", problems, "no topic is blocked", "see: sexton wal explain TOPIC")
        yield from examine_flushes(stores.settings.wal)


def _log(wal: "WalService", topics: "Sequence[Topic]") -> DoctorFinding:
    from sexton.wal.port import LogFault

    unreachable = "nothing is purged meanwhile; is the address right, and the log running? sexton settings show"
    try:
        # One request for all topics first: if the log is unreachable, asking per topic would wait for each.
        facts = wal.log.facts([t.name for t in topics] or [PROBE_TOPIC])
        faults = {name: f for name, f in facts.items() if isinstance(f, LogFault)}
        away = [f for f in faults.values() if f.reason not in MISSING_TOPIC_REASONS]
        if len(away) == len(facts):
            return DoctorFinding("FAIL", "topics", str(away[0]), unreachable)
        problems = [Problem("WARN", f"{name}: {fault}") for name, fault in faults.items() if name != PROBE_TOPIC]
        mistakes = {t.name: wal.log.check(t.name) for t in topics if t.name not in faults}
    except SextonError as e:
        return DoctorFinding("FAIL", "topics", str(e), unreachable)
    problems += [Problem("WARN", f"{name}: {'; '.join(found)}") for name, found in mistakes.items() if found]
    fine = f"the log answers; {len(topics)} purged, each configured to keep acknowledged entries"
    return judged("topics", problems, fine, "change it in the log; see docs/wal-integration.md")


def examine_flushes(settings: "WalSettings") -> Iterator[DoctorFinding]:
    """Yield a warning if requests to flush are not signed; not for a deployment of a demo or a test."""
    if settings.flushes and not settings.flush_secret and not settings.flushes_loopback:
        detail = "requests to flush are not signed, so nodes cannot tell Sexton's from others"
        yield DoctorFinding("WARN", "flushes", detail, "set wal.flush_secret; docs/wal-integration.md")


class InstanceFacts(NamedTuple):
    """What the database contains about the binlogs and replicas of one instance. ``now`` in ms since 1970."""

    instance: str
    now: int
    counts: "LogCounts"
    last_run: "LastRun"
    backends: "Sequence[BackendStanding]"
    retaining: "Sequence[RetainingReplica]"
    is_stopped: bool
    """It only observes, or is halted: no run is expected."""


def examine_binlogs(stores: "DeploymentStores") -> Iterator[DoctorFinding]:
    """Yield findings about binlogs and replicas; none if there are no binlogs or replicas."""
    facts = [_read(stores, instance) for instance in stores.registry.instances()]
    interval_ms = stores.settings.in_force().binlog.interval_seconds * 1000
    freshness_ms = stores.settings.replica.freshness_seconds * 1000
    if any(f.counts.databases for f in facts):
        problems = [_prefixed(f, p) for f in facts if f.counts.databases for p in log_problems(f, interval_ms)]
        todo = "see: sexton binlog list, sexton binlog consumers"
        yield judged("binlogs", problems, "expired records are cut", todo)
    if any(f.backends for f in facts):
        problems = [_prefixed(f, p) for f in facts for p in replica_problems(f, interval_ms, freshness_ms)]
        fine = "every replica is healthy, every backend reports"
        yield judged("replicas", problems, fine, "see: sexton replica backends")


def log_problems(facts: InstanceFacts, interval_ms: int) -> Iterator[Problem]:
    """Yield what is wrong with the binlogs of one instance."""
    counts, last_run = facts.counts, facts.last_run
    if counts.lost:
        needs = "LOST: records that it needs may be deleted; it must copy again, or be removed"
        yield Problem("FAIL", f"{quantity(counts.lost, 'consumer')} {needs}")
    if last_run.refused:
        yield Problem("WARN", f"the last run cut nothing: {last_run.refused}")
    if counts.waiting:
        yield Problem("WARN", f"{quantity(counts.waiting, 'cut')} waiting for approval")
    if counts.logs and not facts.is_stopped:
        late_ms = LATE_INTERVALS * interval_ms
        since = None if last_run.checked_at is None else facts.now - last_run.checked_at
        if since is None or since > late_ms:
            run = "no run yet" if since is None else f"no run for {since // 1000} s"
            yield Problem("WARN", f"{run}: is the schedule active?")


def replica_problems(facts: InstanceFacts, interval_ms: int, freshness_ms: int) -> Iterator[Problem]:
    """Yield what is wrong with the replicas of one instance, one line for each class of problem."""
    for group in facts.retaining:
        if not group.backend:
            yield Problem("FAIL", f"of {quantity(group.copies, 'tablet')} {group.why}")
    with_problems = sorted((b for b in facts.backends if b.problems), key=lambda b: -b.quarantined)
    if with_problems:
        first, replicas = with_problems[0], quantity(sum(b.problems for b in with_problems), "replica")
        quarantined = sum(b.quarantined for b in with_problems)
        review = f", {quarantined:,} of them QUARANTINED until an operator has reviewed them" if quarantined else ""
        text = f"{replicas} failed to delete{review}, e.g. {first.backend}: {first.problem}"
        yield Problem("FAIL" if quarantined else "WARN", text)
    reported_since, pulled_since = facts.now - freshness_ms, facts.now - LATE_INTERVALS * interval_ms
    silent = [b.backend for b in facts.backends if b.copies and (b.reported_at or 0) <= reported_since]
    if silent:
        yield Problem("WARN", f"no fresh report from {_names(silent)}: nothing of their tablets is deleted")
    idle = [b.backend for b in facts.backends if b.behind and (b.pulled_at or 0) <= pulled_since]
    if idle:
        yield Problem("WARN", f"backends that have something to delete and did not pull lately: {_names(idle)}")
    bad, missing = sum(b.bad for b in facts.backends), sum(b.missing for b in facts.backends)
    if bad or missing:
        counts = f"{quantity(bad, 'replica')} bad, {missing:,} with missing versions"
        yield Problem("WARN", f"{counts}; see: sexton replica list")
    if limited := sum(b.by_limit for b in facts.backends):
        replicas = quantity(limited, "replica")
        yield Problem("WARN", f"{replicas} FULL_COPY_ONLY by the hold limit: repair with a full copy")


def _read(stores: "DeploymentStores", instance: "Instance") -> InstanceFacts:
    from sexton.replication.binlog.sql.rows import count_logs, find_last_run
    from sexton.replication.replicas.sql.figures import backend_standings, retaining_by_backend

    db = stores.db
    with db.read() as c:
        return InstanceFacts(
            instance=instance.id,
            now=db.now(c),
            counts=count_logs(db, c, instance.id),
            last_run=find_last_run(db, c, instance.id),
            backends=backend_standings(db, c, instance.id),
            retaining=retaining_by_backend(db, c, instance.id),
            is_stopped=instance.mode != "enabled" or stores.controls.halt(c, instance.id) is not None,
        )


def _prefixed(facts: InstanceFacts, problem: Problem) -> Problem:
    return problem._replace(text=f"{facts.instance}: {problem.text}")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else "")
