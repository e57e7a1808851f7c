"""Read how far running rounds are, from rows that change with each page of a listing or of deletes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import Database
from sexton.insight.views import KindCounts, RoundCounts, Running, ShardCounts
from sexton.marks.keepers import Kept
from sexton.recycle.pipeline.model import RangeReceipt
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.rounds.sql.live_counters import RUNNING

NOTHING = RoundCounts()


class _Range(NamedTuple):
    """A range of a round: its number within its kind, the marks it has claimed, and its result once it has ended."""

    number: int
    claimed: int
    receipt: RangeReceipt | None


def round_progress(db: Database, round_: int) -> RoundCounts:
    """Return how far a round is; empty where the database does not answer: only people wait for it."""
    try:
        with db.read() as c:
            return read_progress(db, c, round_)
    except SQLAlchemyError:
        return NOTHING


def read_progress(db: Database, c: Connection, round_: int) -> RoundCounts:
    """Return what a round has listed and deleted so far, by kind, and what its plan expects."""
    return next((r.progress for r in _rounds(db, c, db.t.round.c.id == round_).values()), NOTHING)


def running_rounds(db: Database, c: Connection) -> Mapping[str, Running]:
    """Return the round of each instance that has one which has not ended: three statements, however many run."""
    return _rounds(db, c, db.t.round.c.state == RUNNING)


def _rounds(db: Database, c: Connection, which: ColumnElement[bool]) -> Mapping[str, Running]:
    """Return the newest of these rounds by instance."""
    t, plan = db.t.round, db.t.plan
    columns = t.c.id, t.c.instance, t.c.started_at, t.c.waiting, t.c.waiting_since, plan.c.body
    with_plans = select(*columns).outerjoin(plan, plan.c.id == t.c.plan).where(which).order_by(t.c.id)
    rows = {row.instance: row for row in c.execute(with_plans)}
    if not rows:
        return {}
    counted, ranges, now = _tallies(db, c, which), _ranges(db, c, which), db.now(c)
    return {
        instance: Running(
            round=row.id,
            since=row.started_at,
            waiting=row.waiting,
            waiting_since=row.waiting_since,
            progress=_progress(row.body, counted.get(row.id, {}), ranges.get(row.id, {}), max(0, now - row.started_at)),
        )
        for instance, row in rows.items()
    }


def _progress(
    body: object, counted: Mapping[str, KindCounts], ranges: Mapping[str, Sequence[_Range]], elapsed_ms: int
) -> RoundCounts:
    """Return the counts of a round's kinds with what its plan expects. Pure."""
    planned = {k.kind: k for k in Plan.model_validate(body).kinds} if body else {}
    kinds = [
        _with_plan(counted.get(kind, KindCounts(kind=kind)), planned.get(kind), ranges.get(kind, ()))
        for kind in sorted(planned.keys() | counted.keys())
    ]
    total: Counter[Kept] = Counter()
    for of_kind in ranges.values():
        total.update(_kept(of_kind))
    return RoundCounts(kinds=tuple(kinds), elapsed_ms=elapsed_ms, kept=dict(total))


def _with_plan(counts: KindCounts, plan: KindPlan | None, ranges: Sequence[_Range]) -> KindCounts:
    """Return the counts of one kind with what its plan expects."""
    counts = counts.model_copy(update={"kept": _kept(ranges).total()})
    if plan is None:
        return counts
    expected = {"due": plan.marks, "held": plan.marks - plan.unheld.marks, "planned": plan.unheld.objects}
    flags = {"estimated": plan.estimated, "guessed": plan.guessed}
    return counts.model_copy(update=expected | flags | {"shards": _shards(plan, ranges)})


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


def _ranges(db: Database, c: Connection, which: ColumnElement[bool]) -> Mapping[int, Mapping[str, Sequence[_Range]]]:
    """Return the ranges that rounds have begun, by round and kind."""
    t, round_ = db.t.batch, db.t.round
    ranges: defaultdict[int, defaultdict[str, list[_Range]]] = defaultdict(lambda: defaultdict(list))
    begun = select(t.c.round, t.c.kind, t.c.number, t.c.claimed, t.c.receipt).join(round_, round_.c.id == t.c.round)
    for row in c.execute(begun.where(which)):
        receipt = None if row.receipt is None else RangeReceipt.model_validate(row.receipt)
        ranges[row.round][row.kind].append(_Range(row.number, row.claimed, receipt))
    return ranges


def _tallies(db: Database, c: Connection, which: ColumnElement[bool]) -> Mapping[int, dict[str, KindCounts]]:
    t, round_ = db.t.tally, db.t.round
    sums = [func.sum(t.c[name]).label(name) for name in ("claimed", "removed", "listed")]
    objects = func.sum(t.c.deleted + t.c.absent + t.c.hidden).label("objects")
    rows = select(t.c.round, t.c.kind, *sums, objects).join(round_, round_.c.id == t.c.round)
    counts: defaultdict[int, dict[str, KindCounts]] = defaultdict(dict)
    for row in c.execute(rows.where(which).group_by(t.c.round, t.c.kind)):
        counts[row.round][row.kind] = KindCounts(**row._mapping)
    return counts
