"""How much is due: marks, keys and bytes as rows say, objects as far as they can be known before a listing."""

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    and_,
    case,
    cast,
    extract,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
)

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.marks.keepers import KeepReason, count_by_reason
from sexton.marks.model import MarkState
from sexton.recycle.model import DAY_MS, KindPlan, Policy, RoundReport
from sexton.recycle.planning.limits import ASSUMED_OBJECTS, is_limited
from sexton.recycle.planning.model import InstancePolicy
from sexton.recycle.planning.policy import FILELESS, for_owner

CLAIMED: ColumnElement[str] = literal_column("'CLAIMED'")
"""As text, not as a parameter: a prepared statement must show the planner that the partial indexes apply."""
AGES_MODULUS = 2**31 - 1
"""Ages are summed up to it, so that the sum of any number of them fits."""
LATELY = 1_000
"""The newest history rows from which it is learned how many objects are under a prefix."""


def policy_of(db: Database, c: Connection, instance: str, policy: Policy) -> InstancePolicy:
    """Return the policy that judges an instance under the settings, or raise ``UnknownInstance``."""
    t = db.t.instance
    row = c.execute(select(t.c.mode, t.c.owner, t.c.retentions).where(t.c.id == instance)).one_or_none()
    if row is None:
        raise UnknownInstance(instance)
    return InstancePolicy(instance, row.mode == "enabled", for_owner(policy, row.owner), row.retentions)


def waits(mark: Table) -> ColumnElement[bool]:
    """Return the condition that a mark is neither claimed nor set aside: the one of the due index."""
    return and_(mark.c.state != CLAIMED, mark.c.quarantined_reason.is_(None))


class Measure:
    """Counts over one instance's marks, in one transaction."""

    def __init__(self, db: Database, c: Connection, instance: str, policy: Policy) -> None:
        self._db, self._c, self._instance, self._policy = db, c, instance, policy
        self._means: dict[str, float] | None = None

    def waiting(self, kind: str) -> int:
        """Return how many marks of a kind are neither claimed nor set aside, due or not."""
        mark = self._db.t.mark
        here = and_(mark.c.instance == self._instance, mark.c.kind == kind, waits(mark))
        return int(self._c.execute(select(func.count()).where(here)).scalar_one())

    def due(self, kind: str, cutoff: int, since: int = 0) -> KindPlan:
        """Return what of a kind is due at the cutoff and was not at ``since``; it costs as much as is due."""
        mark, dialect = self._db.t.mark, self._db.dialect
        length = func.jsonb_array_length if dialect == "postgresql" else func.json_array_length
        here = and_(mark.c.instance == self._instance, mark.c.kind == kind, waits(mark), mark.c.ages_from <= cutoff)
        if since:
            here = and_(here, mark.c.ages_from > since)
        row = self._c.execute(
            select(
                func.count().label("marks"),
                func.coalesce(func.sum(length(mark.c["keys"])), 0).label("keys"),
                func.coalesce(func.sum(case((mark.c.prefix.is_not(None), 1), else_=0)), 0).label("prefixes"),
                func.coalesce(func.sum(case((mark.c["keys"].is_(None), 1), else_=0)), 0).label("unlisted"),
                func.coalesce(func.sum(mark.c.bytes), 0).label("bytes"),
                func.min(mark.c.ages_from).label("oldest"),
                func.coalesce(func.sum(self._milliseconds(mark.c.ages_from) % AGES_MODULUS), 0).label("ages"),
            ).where(here)
        ).one()
        known = {n: int(v) for n, v in row._mapping.items() if n not in ("oldest", "unlisted")}
        unlisted = 0 if kind in FILELESS else int(row.unlisted)
        return KindPlan(
            kind=kind,
            cutoff=cutoff,
            since=since,
            oldest=row.oldest,
            objects=known["keys"] + round(unlisted * self._mean(kind) if unlisted else 0),
            estimated=unlisted > 0,
            limited=is_limited(kind, self._policy),
            **known,
        )

    def again(self, planned: KindPlan) -> KindPlan:
        """Return what a planned kind would be now, at its own cutoff."""
        return self.due(planned.kind, planned.cutoff, planned.since)

    def used(self, now: int) -> int:
        """Return how many objects that count against the limits were claimed within the last 24 hours."""
        batch = self._db.t.batch
        lately = and_(batch.c.instance == self._instance, batch.c.limited > 0, batch.c.claimed_at > now - DAY_MS)
        return int(self._c.execute(select(func.coalesce(func.sum(batch.c.limited), 0)).where(lately)).scalar_one())

    def stopped(self) -> frozenset[str]:
        """Return the kinds of which the last round left something because of the limits."""
        t = self._db.t.round
        newest = select(t.c.report).where(t.c.instance == self._instance, t.c.report.is_not(None))
        report = self._c.execute(newest.order_by(t.c.id.desc()).limit(1)).scalar_one_or_none()
        if report is None:
            return frozenset()
        kinds = RoundReport.model_validate(report).kinds
        return frozenset(k.kind for k in kinds if KeepReason.LIMIT in count_by_reason(k.kept))

    def claimed(self, now: int) -> int:
        """Return how many claimed marks a round would finish first."""
        mark = self._db.t.mark
        ripe = or_(mark.c.swept_at.is_(None), mark.c.next_try_at <= now)
        left = and_(mark.c.instance == self._instance, mark.c.state == CLAIMED, ripe)
        return int(self._c.execute(select(func.count()).where(left)).scalar_one())

    def quarantined(self) -> dict[str, int]:
        """Return how many marks are quarantined, by reason."""
        mark = self._db.t.mark
        of = and_(mark.c.instance == self._instance, mark.c.quarantined_reason.is_not(None))
        counted = select(mark.c.quarantined_reason, func.count()).where(of).group_by(mark.c.quarantined_reason)
        return {str(reason): int(n) for reason, n in self._c.execute(counted)}

    def _milliseconds(self, instant: ColumnElement[int]) -> ColumnElement[int]:
        """Return an instant as the number that it is in Python."""
        if self._db.dialect == "postgresql":
            return cast(func.floor(extract("epoch", instant) * 1000), BigInteger())
        return type_coerce(instant, BigInteger())

    def _mean(self, kind: str) -> float:
        """Return how many objects a mark of the kind that named no keys had, of late."""
        if self._means is None:
            gone, mark = self._db.t.mark_history, self._db.t.mark
            newest = (
                select(gone.c.kind, gone.c.objects, gone.c["keys"].label("named"))
                .where(gone.c.instance == self._instance, gone.c.absorbed.is_(False), gone.c.discarded.is_(None))
                .order_by(gone.c.gone_at.desc())
                .limit(LATELY)
                .subquery()
            )
            # What is deleted and waits for its last look: all there is to learn from on the first days.
            swept = (
                select(mark.c.kind, mark.c.objects_gone)
                .where(mark.c.instance == self._instance, mark.c.state == CLAIMED, mark.c.swept_at.is_not(None))
                .where(mark.c["keys"].is_(None))
                .limit(LATELY)
                .subquery()
            )
            of_history = select(newest.c.kind, func.avg(newest.c.objects)).where(newest.c.named.is_(None))
            of_swept = select(swept.c.kind, func.avg(swept.c.objects_gone))
            found = [*self._c.execute(of_swept.group_by(swept.c.kind))]
            found += self._c.execute(of_history.group_by(newest.c.kind))
            self._means = {kind: float(mean) for kind, mean in found}
        if kind not in self._means:  # others went so often of late that none of its kind is among them
            self._means[kind] = self._mean_of_rounds(kind)
        return self._means[kind]

    def _mean_of_rounds(self, kind: str) -> float:
        """Return how many objects a mark of the kind had, by what rounds told."""
        tally, round_ = self._db.t.tally, self._db.t.round
        its = and_(round_.c.id == tally.c.round, round_.c.instance == self._instance)
        objects = tally.c.deleted + tally.c.absent + tally.c.hidden
        of = select(tally.c.removed, objects.label("objects")).join(round_, its)
        of = of.where(tally.c.kind == kind, tally.c.removed > 0).order_by(tally.c.round.desc()).limit(LATELY)
        lately = of.subquery()
        row = self._c.execute(select(func.sum(lately.c.objects), func.sum(lately.c.removed))).one()
        return float(row[0]) / float(row[1]) if row[1] else ASSUMED_OBJECTS


def find_kinds(db: Database, instance: str) -> Sequence[str]:
    """Return the kinds of marks that wait to fall due, by hopping through the index from kind to kind."""
    mark = db.t.mark
    waiting = and_(mark.c.instance == instance, mark.c.state != MarkState.CLAIMED, mark.c.quarantined_reason.is_(None))
    hop = select(func.min(mark.c.kind).label("kind")).where(waiting).cte("hop", recursive=True)
    step = select(func.min(mark.c.kind)).where(waiting, mark.c.kind > hop.c.kind).scalar_subquery()
    hop = hop.union_all(select(step).where(hop.c.kind.is_not(None)))
    with db.read() as tx:
        return list(tx.execute(select(hop.c.kind).where(hop.c.kind.is_not(None))).scalars())
