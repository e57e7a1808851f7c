"""What the doctor asks about topics: does the log answer, is each as it must be, and what blocks it?"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.wal.model import Topic
    from sexton.wal.wal import WalService

EXAMINED, NAMED = 100, 5
"""Topics that are asked about, and those that are named."""
PROBE = "sexton-doctor-asks"
"""The name of a topic that nobody has: whoever answers that is there."""
NONE_SUCH = ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID")


def examine_wal(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield findings about the topics that are purged; nothing where there are none."""
    from sexton.database.engine import Database
    from sexton.wal.wal import WalService

    db = Database.open(settings.database_url)
    try:
        wal = WalService(db, settings.wal_terms())
        topics = wal.store.topics("", EXAMINED, enabled=True)
        if topics or settings.wal.kafka:
            yield _log(wal, topics)
        if topics:
            yield _purged(wal, topics)
    finally:
        db.close()


def _log(wal: "WalService", topics: "Sequence[Topic]") -> DoctorFinding:
    from sexton.wal.port import LogFault

    away = "nothing is purged meanwhile; is the address right, and the log up? sexton settings show"
    try:
        # One question for all of them first: of a log that is away each topic would be waited for.
        told = wal.log.facts([t.name for t in topics] or [PROBE])
        faults = [its for its in told.values() if isinstance(its, LogFault) and its.reason not in NONE_SUCH]
        if len(faults) == len(told):
            return DoctorFinding("FAIL", "topics", str(faults[0]), away)
        said = [f"{name}: {its}" for name, its in told.items() if isinstance(its, LogFault) and name != PROBE]
        there = [t for t in topics if not isinstance(told[t.name], LogFault)]
        said += [f"{t.name}: {'; '.join(wrong)}" for t in there if (wrong := wal.log.check(t.name))]
    except SextonError as e:
        return DoctorFinding("FAIL", "topics", str(e), away)
    if said:
        more = f"; and {len(said) - NAMED} topics more" if len(said) > NAMED else ""
        todo = "change it in the log; see docs/wal-integration.md"
        return DoctorFinding("WARN", "topics", "; ".join(said[:NAMED]) + more, todo)
    return DoctorFinding(
        "OK", "topics", f"the log answers; {len(topics)} purged, each set to keep what is acknowledged"
    )


def _purged(wal: "WalService", topics: "Sequence[Topic]") -> DoctorFinding:
    lost = wal.store.lost([t.name for t in topics])
    bad = [f"{t.name}: {t.quarantined}" for t in topics if t.quarantined]
    bad += [f"{name}: LOSS, {n} regions need what is gone" for name, n in lost.items()]
    if bad:
        return DoctorFinding("FAIL", "purges", "; ".join(bad[:NAMED]), "see: sexton wal explain TOPIC")
    kept = [f"{t.name}: {', '.join(t.blocked) or t.fault}" for t in topics if t.blocked or t.fault]
    kept += [f"{t.name}: not looked at yet" for t in topics if not (t.blocked or t.fault or t.looked_at)]
    if kept:
        return DoctorFinding("WARN", "purges", "; ".join(kept[:NAMED]), "see: sexton wal explain TOPIC")
    return DoctorFinding("OK", "purges", "no topic is blocked")
