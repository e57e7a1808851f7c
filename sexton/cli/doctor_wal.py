"""What the doctor asks about topics: does the log answer, is each as it must be, and what blocks it?"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.cli.findings import Finding
from sexton.errors import SextonError

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.wal.model import Topic
    from sexton.wal.wal import Wal

EXAMINED, NAMED = 100, 5
"""Topics that are asked about, and those that are named."""


def examine_wal(settings: "Settings") -> Iterator[Finding]:
    """Yield findings about the topics that are purged; nothing where there are none."""
    from sexton.db.engine import Database
    from sexton.wal.wal import Wal

    db = Database.open(settings.database_url)
    try:
        wal = Wal(db, settings.wal_terms())
        topics = wal.store.topics("", EXAMINED, enabled=True)
        if topics:
            yield _log(wal, topics)
            yield _purged(wal, topics)
    finally:
        db.close()


def _log(wal: "Wal", topics: "Sequence[Topic]") -> Finding:
    try:
        said = [f"{t.name}: {what}" for t in topics for what in wal.log.check(t.name)]
    except SextonError as e:
        return Finding("FAIL", "topics", str(e), "nothing is purged; see: sexton settings show")
    if said:
        more = f"; and {len(said) - NAMED} more" if len(said) > NAMED else ""
        todo = "change it in Kafka; see docs/wal-integration.md"
        return Finding("WARN", "topics", "; ".join(said[:NAMED]) + more, todo)
    return Finding("OK", "topics", f"{len(topics)} purged, each with settings that keep what is acknowledged")


def _purged(wal: "Wal", topics: "Sequence[Topic]") -> Finding:
    lost = wal.store.lost([t.name for t in topics])
    bad = [f"{t.name}: {t.quarantined}" for t in topics if t.quarantined]
    bad += [f"{name}: LOSS, {n} regions need what is gone" for name, n in lost.items()]
    if bad:
        return Finding("FAIL", "purges", "; ".join(bad[:NAMED]), "see: sexton wal explain TOPIC")
    kept = [f"{t.name}: {', '.join(t.blocked) or t.fault}" for t in topics if t.blocked or t.fault]
    if kept:
        return Finding("WARN", "purges", "; ".join(kept[:NAMED]), "see: sexton wal explain TOPIC")
    return Finding("OK", "purges", "no topic is blocked")
