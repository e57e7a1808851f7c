"""Read which rounds, checks and purges run now, and how far they are, from rows that change with each page.

And which Spark workers run, and how busy they are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import JSON, BigInteger, Connection, Row, Select, and_, func, literal, select, union_all
from sqlalchemy.exc import SQLAlchemyError

from sexton.check.model import CheckCounts
from sexton.database.engine import Database, now_once
from sexton.insight.views import KindCounts, RoundCounts, Running, RunningWork, ShardCounts
from sexton.insight.wording import MOST_KINDS, check_text, gone_text, kind_text, quantity
from sexton.marks.kept import Kept
from sexton.marks.model import LeaseState
from sexton.recycle.model import JOB
from sexton.recycle.pipeline.model import RangeReceipt
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.rounds.sql.reports import RUNNING
from sexton.wal.model import Mode

NOTHING = RoundCounts()


class _Range(NamedTuple):
    """A range of a round: its number within its kind, the marks it has claimed, and its result once it has ended."""

    kind: str
    number: int
    claimed: int
    receipt: RangeReceipt | None


def round_progress(db: Database, round_: int) -> RoundCounts:
    """Return what a round has listed and deleted so far, by kind, and what its plan expects.

    Empty where the database does not answer: only people wait for it.
    """
    try:
        with db.read() as c:
            row = c.execute(_rounds(db).where(db.t.round.c.id == round_)).one_or_none()
    except SQLAlchemyError:
        return NOTHING
    return NOTHING if row is None else _progress(row)


def progress_lines(db: Database, work: str, number: int) -> list[str]:
    """Return how far a ``round`` or a ``check`` is, by its number, for people; nothing where nothing is known of it."""
    if work == "round":
        counts = round_progress(db, number)
        more = (
            [f"and {quantity(len(counts.kinds) - MOST_KINDS, 'more kind')}"] if len(counts.kinds) > MOST_KINDS else []
        )
        return [gone_text(counts), *map(kind_text, counts.kinds[:MOST_KINDS]), *more] if counts.expected else []
    t = db.t.check_run
    with db.read() as c:
        rows = c.execute(select(t).where(t.c.id == number)).all()
    return [check_text(CheckCounts.model_validate(dict(row._mapping))) for row in rows]


def running_rounds(db: Database, c: Connection) -> Mapping[str, Running]:
    """Return the round of each instance that has one which has not ended: one statement, however many run."""
    return {name: running for name, running in read_work(db, c).items() if running.round is not None}


def read_work(db: Database, c: Connection) -> Mapping[str, Running]:
    """Return, by instance, the newest round that has not ended, or the lease that a run took before it opened one."""
    t = db.t.lease
    running = _rounds(db).where(db.t.round.c.state == RUNNING).subquery()
    held = and_(t.c.job == JOB, t.c.state == LeaseState.BUSY)
    lease = select(t.c.instance.label("holder"), t.c.acquired_at, t.c.expires_at).where(held).subquery()
    both = running.join(lease, lease.c.holder == running.c.instance, full=True)
    query = select(running, lease, now_once().label("read_at")).select_from(both).order_by(running.c.id)
    work: dict[str, Running] = {}
    for row in c.execute(query):
        leased = row.holder is not None
        cut_off = leased and row.expires_at <= row.read_at
        if row.instance is None:
            work[row.holder] = Running(round=None, since=row.acquired_at, leased=leased, cut_off=cut_off)
        else:
            work[row.instance] = Running(
                round=row.id,
                since=row.started_at,
                waiting=row.waiting,
                wait=row.wait,
                waiting_since=row.waiting_since,
                leased=leased,
                cut_off=cut_off,
                progress=_progress(row),
            )
    return work


def _rounds(db: Database) -> Select[Any]:
    """Return the query of rounds, each with its plan, and with the counts of its kinds and its ranges as JSON."""
    t, plan, tally, batch = db.t.round, db.t.plan, db.t.tally, db.t.batch
    sums = [func.sum(tally.c[name]).label(name) for name in ("claimed", "removed", "listed", "adopted")]
    objects = func.sum(tally.c.deleted + tally.c.absent + tally.c.hidden).label("objects")
    counts = select(tally.c.kind, *sums, objects).where(tally.c.round == t.c.id).group_by(tally.c.kind)
    ranges = select(*(batch.c[name] for name in _Range._fields)).where(batch.c.round == t.c.id)
    lists = {"counts": counts.correlate(t).subquery(), "ranges": ranges.correlate(t).subquery()}
    columns = t.c.id, t.c.instance, t.c.started_at, t.c.waiting, t.c.wait, t.c.waiting_since, plan.c.body
    as_json = (
        select(func.json_agg(rows.table_valued(), type_=JSON())).scalar_subquery().label(name)
        for name, rows in lists.items()
    )
    query = select(*columns, *as_json, now_once().label("now"))
    return query.select_from(t.outerjoin(plan, plan.c.id == t.c.plan))


def _progress(row: Row[Any]) -> RoundCounts:
    """Return the counts of a round's kinds with what its plan expects. Pure."""
    counted = {counts["kind"]: KindCounts(**counts) for counts in row.counts or ()}
    planned = {k.kind: k for k in Plan.model_validate(row.body).kinds} if row.body else {}
    ranges: defaultdict[str, list[_Range]] = defaultdict(list)
    for fields in row.ranges or ():
        receipt = None if fields["receipt"] is None else RangeReceipt.model_validate(fields["receipt"])
        ranges[fields["kind"]].append(_Range(**fields | {"receipt": receipt}))
    kinds: list[KindCounts] = []
    for kind in sorted(planned.keys() | counted.keys()):
        plan, of_kind = planned.get(kind), ranges.get(kind, [])
        changes: dict[str, object] = {"kept": _kept(of_kind).total()}
        if plan is not None:
            changes |= {"due": plan.marks, "held": plan.marks - plan.unheld.marks, "planned": plan.unheld.objects}
            changes |= {"estimated": plan.estimated, "guessed": plan.guessed, "shards": _shards(plan, of_kind)}
        kinds.append(counted.get(kind, KindCounts(kind=kind)).model_copy(update=changes))
    total: Counter[Kept] = Counter()
    for of_kind in ranges.values():
        total.update(_kept(of_kind))
    return RoundCounts(kinds=tuple(kinds), elapsed_ms=max(0, row.now - row.started_at), kept=dict(total))


def _shards(plan: KindPlan, ranges: Sequence[_Range]) -> tuple[ShardCounts, ...]:
    """Return how far each shard of a kind is; empty: it is not divided. The numbers of ranges go round the shards."""
    of_shard: defaultdict[int, list[_Range]] = defaultdict(list)
    for range_ in ranges:
        of_shard[range_.number % max(1, len(plan.shards))].append(range_)
    return tuple(
        ShardCounts(
            due=shard.marks,
            claimed=sum(range_.claimed for range_ in of_shard[number]),
            finished=any(range_.receipt is not None and range_.receipt.finished for range_ in of_shard[number]),
        )
        for number, shard in enumerate(plan.shards if len(plan.shards) > 1 else ())
    )


def _kept(ranges: Iterable[_Range]) -> Counter[Kept]:
    """Return the marks that finished ranges kept, by reason."""
    marks_by_reason: Counter[Kept] = Counter()
    for range_ in ranges:
        if range_.receipt is not None:
            marks_by_reason.update(range_.receipt.kept)
    return marks_by_reason


MAX_PURGES = 1_000
CUT_OFF = "lost its lease: no worker has it; see: sexton doctor"


def read_running(db: Database, instance: str | None = None) -> tuple[RunningWork, ...]:
    """Return what runs now, of one instance or of all: rounds, checks, purges that the log has not followed yet.

    A run over binlogs has no row while it runs; `sexton binlog progress` asks Temporal.
    """
    with db.read() as c:
        rounds, others = running_rounds(db, c), list(_checks_and_purges(db, c))
    works = [
        RunningWork(
            work="round",
            instance=name,
            name=str(running.round),
            since=running.since,
            elapsed_ms=running.progress.elapsed_ms,
            state=running.waiting or (CUT_OFF if running.cut_off else ""),
            progress=running.progress,
        )
        for name, running in sorted(rounds.items())
    ]
    return tuple(work for work in works + others if instance in (None, work.instance))


def _checks_and_purges(db: Database, c: Connection) -> Iterator[RunningWork]:
    """Yield checks, and floors that were raised, up to which the log has not deleted yet, where Sexton makes it delete.

    In the order of instances and numbers, and of topics and floors.
    """
    run, purge, topic = db.t.check_run, db.t.wal_purge, db.t.wal_topic
    work, name, number = literal("check").label("work"), run.c.instance.label("name"), run.c.id.label("number")
    counts = [run.c[count] for count in CheckCounts.model_fields]
    checks = select(work, run.c.instance, name, number, run.c.cutoff.label("since"), *counts)
    checks = checks.where(run.c.state == RUNNING)
    deletes = and_(topic.c.name == purge.c.topic, topic.c.mode == Mode.DELETE)
    entries: list[Any] = [func.coalesce(purge.c.floor - purge.c.log_start, 0)]  # in the place of listed objects
    entries += [literal(0, BigInteger()) for _ in counts[1:]]
    unfinished = select(literal("purge"), topic.c.instance, purge.c.topic, purge.c.floor, purge.c.at, *entries)
    unfinished = unfinished.join(topic, deletes).where(purge.c.done_at.is_(None))
    purges = unfinished.order_by(purge.c.topic, purge.c.floor).limit(MAX_PURGES)
    both = union_all(checks, purges).subquery()
    for row in c.execute(select(both, now_once().label("now")).order_by(both.c.work, both.c.name, both.c.number)):
        is_check = row.work == "check"
        left = f": {quantity(row.listed, 'entry', 'entries')}" if row.listed > 0 else ""
        yield RunningWork(
            work=row.work,
            instance=row.instance,
            name=str(row.number) if is_check else row.name,
            since=row.since,
            elapsed_ms=max(0, row.now - row.since),
            state="" if is_check else f"the log has not deleted all entries below {row.number:,} yet{left}",
            check=CheckCounts.model_validate(dict(row._mapping)) if is_check else None,
        )


SPARK = "spark"
"""The role of a worker that runs activities on Spark."""
ABSENT_MS = 30_000
"""A worker that has not reported for this long is absent. A busy one reports, although it polls for no work."""


class SparkSlots(NamedTuple):
    """All Spark workers that run: how many, how many activities they take at once, and how many they run."""

    workers: int = 0
    slots: int = 0
    busy: int = 0


def read_slots(db: Database, c: Connection) -> SparkSlots:
    """Return the workers that run, and their slots."""
    t, now = db.t.worker_presence, db.machine_now(c)
    present = and_(t.c.role == SPARK, t.c.seen_at > now - ABSENT_MS, t.c.seen_at <= now + ABSENT_MS)
    sums = (func.coalesce(func.sum(n), 0) for n in (t.c.slots, t.c.busy))
    return SparkSlots(*(int(n) for n in c.execute(select(func.count(), *sums).where(present)).one()))
