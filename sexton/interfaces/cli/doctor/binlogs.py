"""Check binlogs and replicas: are expired records cut, and do backends delete them?"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sexton.insight.wording import quantity
from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from sexton.operators.registry.store import Instance
    from sexton.replication.binlog.model import LastRun, LogCounts
    from sexton.replication.replicas.model import BackendStanding, RetainingReplica
    from sexton.runtime.stores import DeploymentStores

MAX_NAMED = 5
LATE_INTERVALS = 3
"""A run, or a pull of a backend, is late after this many intervals."""


class Problem(NamedTuple):
    """One thing that is wrong; ``state`` is FAIL or WARN."""

    state: str
    text: str


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
        yield _finding("binlogs", problems, "expired records are cut", todo)
    if any(f.backends for f in facts):
        problems = [_prefixed(f, p) for f in facts for p in replica_problems(f, interval_ms, freshness_ms)]
        fine = "every replica is healthy, every backend reports"
        yield _finding("replicas", problems, fine, "see: sexton replica backends")


def log_problems(facts: InstanceFacts, interval_ms: int) -> Iterator[Problem]:
    """Yield what is wrong with the binlogs of one instance."""
    counts, last_run = facts.counts, facts.last_run
    if counts.lost:
        consumers = quantity(counts.lost, "consumer")
        yield Problem(
            "FAIL", f"{consumers} LOST: records that it needs may be deleted; it must copy again, or be removed"
        )
    if last_run.refused:
        yield Problem("WARN", f"the last run cut nothing: {last_run.refused}")
    if counts.waiting:
        yield Problem("WARN", f"{quantity(counts.waiting, 'cut')} waiting for approval")
    if counts.logs and not facts.is_stopped:
        if last_run.checked_at is None:
            yield Problem("WARN", "no run yet: is the schedule active?")
        elif facts.now - last_run.checked_at > LATE_INTERVALS * interval_ms:
            seconds = (facts.now - last_run.checked_at) // 1000
            yield Problem("WARN", f"no run for {seconds} s: is the schedule active?")


def replica_problems(facts: InstanceFacts, interval_ms: int, freshness_ms: int) -> Iterator[Problem]:
    """Yield what is wrong with the replicas of one instance, one line for each class of problem."""
    for group in facts.retaining:
        if not group.backend:
            yield Problem("FAIL", f"of {quantity(group.copies, 'tablet')} {group.why}")
    yield from _reported_problems(facts.backends)
    reported_since, pulled_since = facts.now - freshness_ms, facts.now - LATE_INTERVALS * interval_ms
    silent = [b.backend for b in facts.backends if b.copies and not _later(b.reported_at, reported_since)]
    if silent:
        yield Problem("WARN", f"no fresh report from {_names(silent)}: nothing of their tablets is deleted")
    idle = [b.backend for b in facts.backends if b.behind and not _later(b.pulled_at, pulled_since)]
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
    from sexton.replication.binlog.sql.figures import count_logs, find_last_run
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


def _reported_problems(backends: "Sequence[BackendStanding]") -> Iterator[Problem]:
    """Yield the deletions that backends reported as failed, in one line."""
    with_problems = sorted((b for b in backends if b.problems), key=lambda b: -b.quarantined)
    if not with_problems:
        return
    first = with_problems[0]
    replicas = quantity(sum(b.problems for b in with_problems), "replica")
    quarantined = sum(b.quarantined for b in with_problems)
    review = f", {quarantined:,} of them QUARANTINED until an operator has reviewed them" if quarantined else ""
    text = f"{replicas} failed to delete{review}, e.g. {first.backend}: {first.problem}"
    yield Problem("FAIL" if quarantined else "WARN", text)


def _prefixed(facts: InstanceFacts, problem: Problem) -> Problem:
    return problem._replace(text=f"{facts.instance}: {problem.text}")


def _finding(about: str, problems: Sequence[Problem], fine: str, todo: str) -> DoctorFinding:
    if not problems:
        return DoctorFinding("OK", about, fine)
    worst_first = sorted(problems, key=lambda problem: problem.state != "FAIL")
    more = f"; and {len(worst_first) - MAX_NAMED} more" if len(worst_first) > MAX_NAMED else ""
    detail = "; ".join(problem.text for problem in worst_first[:MAX_NAMED]) + more
    return DoctorFinding("FAIL" if worst_first[0].state == "FAIL" else "WARN", about, detail, todo)


def _later(instant: int | None, limit: int) -> bool:
    return instant is not None and instant > limit


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else "")
