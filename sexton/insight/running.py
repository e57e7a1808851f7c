"""Read which rounds, checks and purges run now, and how far they are. SQL alone, few statements for all instances."""

from collections.abc import Iterator

from sqlalchemy import Connection, and_, select

from sexton.check.model import RunState
from sexton.database.engine import Database
from sexton.insight.progress import running_rounds
from sexton.insight.views import RunningWork
from sexton.marks.lease import LeaseState
from sexton.recycle.rounds.sql.store import JOB
from sexton.wal.model import Mode

MAX_PURGES = 1_000
CUT_OFF = "lost its lease: no worker has it; see: sexton doctor"


def read_running(db: Database, instance: str | None = None) -> tuple[RunningWork, ...]:
    """Return what runs now, of one instance or of all: rounds, checks, purges that the log has not followed yet.

    A run over binlogs has no row while it runs; `sexton binlog progress` asks Temporal.
    """
    with db.read() as c:
        now = db.now(c)
        works = (*_rounds(db, c, now), *_checks(db, c, now), *_purges(db, c, now))
    return tuple(work for work in works if instance in (None, work.instance))


def _rounds(db: Database, c: Connection, now: int) -> Iterator[RunningWork]:
    lease = db.t.lease
    leased = and_(lease.c.job == JOB, lease.c.state == LeaseState.BUSY)
    expiries = {row.instance: row.expires_at for row in c.execute(select(lease).where(leased))}
    for instance, running in sorted(running_rounds(db, c).items()):
        is_cut_off = running.waiting is None and expiries.get(instance, now + 1) <= now
        yield RunningWork(
            work="round",
            instance=instance,
            name=str(running.round),
            since=running.since,
            elapsed_ms=running.progress.elapsed_ms,
            state=running.waiting or (CUT_OFF if is_cut_off else ""),
            progress=running.progress,
        )


def _checks(db: Database, c: Connection, now: int) -> Iterator[RunningWork]:
    t = db.t.check_run
    running = select(t.c.id, t.c.instance, t.c.cutoff).where(t.c.state == RunState.RUNNING)
    for row in c.execute(running.order_by(t.c.instance, t.c.id)):
        times = {"since": row.cutoff, "elapsed_ms": max(0, now - row.cutoff)}
        yield RunningWork(work="check", instance=row.instance, name=str(row.id), **times)


def _purges(db: Database, c: Connection, now: int) -> Iterator[RunningWork]:
    """Yield floors that were raised, up to which the log has not deleted yet, where Sexton makes it delete."""
    purge, topic = db.t.wal_purge, db.t.wal_topic
    columns = (purge.c.topic, topic.c.instance, purge.c.at, purge.c.floor)
    deletes = and_(topic.c.name == purge.c.topic, topic.c.mode == Mode.DELETE)
    unfinished = select(*columns).join(topic, deletes).where(purge.c.done_at.is_(None))
    for row in c.execute(unfinished.order_by(purge.c.topic, purge.c.floor).limit(MAX_PURGES)):
        yield RunningWork(
            work="purge",
            instance=row.instance,
            name=row.topic,
            since=row.at,
            elapsed_ms=max(0, now - row.at),
            state=f"the log has not deleted all entries below {row.floor:,} yet",
        )
