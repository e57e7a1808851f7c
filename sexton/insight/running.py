"""Read which rounds, checks and purges run now, and how far they are: two statements for all instances."""

from collections.abc import Iterator

from sqlalchemy import Connection, and_, literal, select, union_all

from sexton.database.engine import Database, now_once
from sexton.insight.progress import running_rounds
from sexton.insight.views import RunningWork
from sexton.recycle.rounds.sql.reports import RUNNING
from sexton.wal.model import Mode

MAX_PURGES = 1_000
CUT_OFF = "lost its lease: no worker has it; see: sexton doctor"


def read_running(db: Database, instance: str | None = None) -> tuple[RunningWork, ...]:
    """Return what runs now, of one instance or of all: rounds, checks, purges that the log has not followed yet.

    A run over binlogs has no row while it runs; `sexton binlog progress` asks Temporal.
    """
    with db.read() as c:
        works = (*_rounds(db, c), *_checks_and_purges(db, c))
    return tuple(work for work in works if instance in (None, work.instance))


def _rounds(db: Database, c: Connection) -> Iterator[RunningWork]:
    for instance, running in sorted(running_rounds(db, c).items()):
        yield RunningWork(
            work="round",
            instance=instance,
            name=str(running.round),
            since=running.since,
            elapsed_ms=running.progress.elapsed_ms,
            state=running.waiting or (CUT_OFF if running.cut_off else ""),
            progress=running.progress,
        )


def _checks_and_purges(db: Database, c: Connection) -> Iterator[RunningWork]:
    """Yield checks, and floors that were raised, up to which the log has not deleted yet, where Sexton makes it delete.

    In the order of instances and numbers, and of topics and floors.
    """
    run, purge, topic = db.t.check_run, db.t.wal_purge, db.t.wal_topic
    work, name, number = literal("check").label("work"), run.c.instance.label("name"), run.c.id.label("number")
    checks = select(work, run.c.instance, name, number, run.c.cutoff.label("since")).where(run.c.state == RUNNING)
    deletes = and_(topic.c.name == purge.c.topic, topic.c.mode == Mode.DELETE)
    unfinished = select(literal("purge"), topic.c.instance, purge.c.topic, purge.c.floor, purge.c.at)
    unfinished = unfinished.join(topic, deletes).where(purge.c.done_at.is_(None))
    purges = unfinished.order_by(purge.c.topic, purge.c.floor).limit(MAX_PURGES)
    both = union_all(checks, purges).subquery()
    for row in c.execute(select(both, now_once().label("now")).order_by(both.c.work, both.c.name, both.c.number)):
        is_check = row.work == "check"
        yield RunningWork(
            work=row.work,
            instance=row.instance,
            name=str(row.number) if is_check else row.name,
            since=row.since,
            elapsed_ms=max(0, row.now - row.since),
            state="" if is_check else f"the log has not deleted all entries below {row.number:,} yet",
        )
