"""Read which rounds, checks and purges run now, and how far they are. SQL alone, few statements for all instances."""

from collections.abc import Iterator

from sqlalchemy import Connection, and_, select

from sexton.check.model import RunState
from sexton.database.engine import Database
from sexton.insight.progress import read_progress
from sexton.insight.views import RunningWork
from sexton.marks.lease import LeaseState
from sexton.recycle.model import RoundState
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
    t, lease = db.t.round, db.t.lease
    leased = and_(lease.c.instance == t.c.instance, lease.c.job == JOB, lease.c.state == LeaseState.BUSY)
    columns = (t.c.id, t.c.instance, t.c.started_at, t.c.waiting, lease.c.expires_at)
    running = select(*columns).outerjoin(lease, leased).where(t.c.state == RoundState.RUNNING)
    newest: dict[str, RunningWork] = {}  # an older one of the instance was cut off, and will be taken over
    for row in c.execute(running.order_by(t.c.instance, t.c.id)):
        is_cut_off = row.waiting is None and row.expires_at is not None and row.expires_at <= now
        newest[row.instance] = RunningWork(
            work="round",
            instance=row.instance,
            name=str(row.id),
            since=row.started_at,
            elapsed_ms=max(0, now - row.started_at),
            state=row.waiting or (CUT_OFF if is_cut_off else ""),
        )
    for work in newest.values():
        yield work.model_copy(update={"progress": read_progress(db, c, int(work.name))})


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
