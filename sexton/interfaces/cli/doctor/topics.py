"""Check topics: does the log answer, is each topic configured as it must be, and what blocks its purges?"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.insight.wording import quantity
from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from sexton.runtime.stores import DeploymentStores
    from sexton.wal.model import Topic, WalSettings
    from sexton.wal.wal import WalService

MAX_EXAMINED = 100
MAX_NAMED = 5
PROBE_TOPIC = "sexton-doctor-asks"
"""The name of a topic that does not exist: any answer about it shows that the log is reachable."""
MISSING_TOPIC_REASONS = ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID")
SEE_EXPLAIN = "see: sexton wal explain TOPIC"


def examine_wal(stores: "DeploymentStores") -> Iterator[DoctorFinding]:
    """Yield findings about the topics that are purged; none if there are none and no log is configured."""
    wal = stores.wal
    topics = wal.store.topics("", MAX_EXAMINED, enabled=True)
    if topics or stores.settings.wal.kafka:
        yield _log(wal, topics)
    if topics:
        yield _purges(wal, topics)
        yield from examine_flushes(stores.settings.wal)


def _log(wal: "WalService", topics: "Sequence[Topic]") -> DoctorFinding:
    from sexton.wal.port import LogFault

    unreachable = "nothing is purged meanwhile; is the address right, and the log running? sexton settings show"
    try:
        # One request for all topics first: if the log is unreachable, asking per topic would wait for each.
        facts = wal.log.facts([t.name for t in topics] or [PROBE_TOPIC])
        faults = [f for f in facts.values() if isinstance(f, LogFault) and f.reason not in MISSING_TOPIC_REASONS]
        if len(faults) == len(facts):
            return DoctorFinding("FAIL", "topics", str(faults[0]), unreachable)
        problems = _topic_problems(wal, topics, {n: f for n, f in facts.items() if isinstance(f, LogFault)})
    except SextonError as e:
        return DoctorFinding("FAIL", "topics", str(e), unreachable)
    if problems:
        more = f"; and {len(problems) - MAX_NAMED} more topics" if len(problems) > MAX_NAMED else ""
        todo = "change it in the log; see docs/wal-integration.md"
        return DoctorFinding("WARN", "topics", "; ".join(problems[:MAX_NAMED]) + more, todo)
    detail = f"the log answers; {len(topics)} purged, each configured to keep acknowledged entries"
    return DoctorFinding("OK", "topics", detail)


def _topic_problems(wal: "WalService", topics: "Sequence[Topic]", faults: "dict[str, SextonError]") -> list[str]:
    """Return one line for each topic that has a fault or a wrong configuration."""
    problems = [f"{name}: {fault}" for name, fault in faults.items() if name != PROBE_TOPIC]
    for topic in topics:
        if topic.name not in faults:
            mistakes = wal.log.check(topic.name)
            if mistakes:
                problems.append(f"{topic.name}: {'; '.join(mistakes)}")
    return problems


def examine_flushes(settings: "WalSettings") -> Iterator[DoctorFinding]:
    """Yield a warning if requests to flush are not signed; not for a deployment of a demo or a test."""
    if settings.flushes and not settings.flush_secret and not settings.flushes_loopback:
        detail = "requests to flush are not signed, so nodes cannot tell Sexton's from others"
        yield DoctorFinding("WARN", "flushes", detail, "set wal.flush_secret; docs/wal-integration.md")


def _purges(wal: "WalService", topics: "Sequence[Topic]") -> DoctorFinding:
    lost_regions = wal.store.lost([t.name for t in topics])
    failures = [f"{t.name}: {t.quarantined}" for t in topics if t.quarantined]
    failures += [f"{name}: LOSS in {quantity(count, 'region')}" for name, count in lost_regions.items()]
    if failures:
        return DoctorFinding("FAIL", "purges", "; ".join(failures[:MAX_NAMED]), SEE_EXPLAIN)
    warnings = [f"{t.name}: {', '.join(t.blocked) or t.fault}" for t in topics if t.blocked or t.fault]
    warnings += [f"{t.name}: not checked yet" for t in topics if not (t.blocked or t.fault or t.checked_at)]
    if warnings:
        return DoctorFinding("WARN", "purges", "; ".join(warnings[:MAX_NAMED]), SEE_EXPLAIN)
    return DoctorFinding("OK", "purges", "no topic is blocked")
