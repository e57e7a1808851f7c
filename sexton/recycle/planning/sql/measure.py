"""Measure what is due: count marks, keys and bytes in rows, and estimate objects that only a listing would show."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    case,
    cast,
    extract,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    tuple_,
)

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.database.rows import as_rows, in_list, sum_of
from sexton.marks.kept import KeepReason, Kept, count_by_reason
from sexton.marks.model import NOTHING_DUE, Cutoff, InstanceMode
from sexton.marks.sql.rows import CLAIMED, is_due, waits
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import Cursor
from sexton.recycle.planning.model import HeldMarks, InstancePolicy, KindPlan, PlannedShard, Policy
from sexton.recycle.planning.policy import ASSUMED_OBJECTS, for_owner, is_limited, shard_count

AGES_MODULUS = 2**31 - 1
"""Each age is taken modulo this number, so that a sum over any number of marks fits into the column."""
MOST_KINDS, MOST_COUNTED = 20, 1_000
"""Kinds without a retention that are named, and further ones that are counted."""
PAGE_MARKS = 50_000  # that one statement counts
SAMPLE_ROWS = 1_000
"""The newest rows from which the number of objects under a prefix is estimated."""
SUMMED = ("marks", "keys", "prefixes", "bytes")
"""Sums that are counted in rows, the same for all marks and for held ones."""


def no_heartbeat() -> None:
    """Continue: nothing watches this count."""


def policy_of(db: Database, c: Connection, instance: str, policy: Policy) -> InstancePolicy:
    """Return the policy that judges an instance under the settings, or raise ``UnknownInstance``."""
    t = db.t.instance
    row = c.execute(select(t.c.mode, t.c.owner, t.c.retentions).where(t.c.id == instance)).one_or_none()
    if row is None:
        raise UnknownInstance(instance)
    of_owner = for_owner(policy, row.owner)
    if of_owner.fallback_retention_seconds is not None:
        kinds = find_kinds(db, c, instance, of_owner.retention_seconds, MOST_COUNTED).names
        retentions = dict.fromkeys(kinds, of_owner.fallback_retention_seconds) | of_owner.retention_seconds
        # Marks of still other kinds are kept until some of these are gone, by each step of a round.
        of_owner = of_owner.model_copy(update={"retention_seconds": retentions, "fallback_retention_seconds": None})
    return InstancePolicy(instance, row.mode == InstanceMode.ENABLED, of_owner, row.retentions)


class Measure:
    """Counts over one instance's marks, in one transaction."""

    def __init__(
        self,
        db: Database,
        c: Connection,
        instance: str,
        policy: Policy,
        heartbeat: Callable[[], None] = no_heartbeat,
        foreseen: Mapping[Kept, ColumnElement[bool]] = MappingProxyType({}),
    ) -> None:
        """Count an instance's marks in one transaction.

        ``heartbeat`` is called between two pages of marks; it raises if the count must stop. ``foreseen``: the answers
        of keepers, as ``Keeper.foreseen`` returns them, in order of precedence.
        """
        self._heartbeat = heartbeat
        self._foreseen = foreseen
        self._db = db
        self._c = c
        self._instance = instance
        self._policy = policy
        self._means: dict[str, float | None] = {}
        """Kind → how many objects one recent mark had, of marks that named no keys; None: no round deleted any."""

    def count_waiting(self, kind: str) -> int:
        """Return how many marks of a kind are neither claimed nor quarantined, due or not."""
        mark = self._db.t.mark
        waiting = and_(mark.c.instance == self._instance, mark.c.kind == kind, waits(mark))
        pages = (select(func.count()).where(page) for page in self._pages(waiting))
        return sum(int(self._c.execute(page).scalar_one()) for page in pages)

    def measure_due(self, kind: str, cutoff: Cutoff, since: Cutoff = NOTHING_DUE) -> KindPlan:
        """Return how much of a kind is due, counted in pages; the cost grows with the number of marks that are due.

        ``since``: marks that are due by this earlier cutoff are left out.
        """
        mark = self._db.t.mark
        due = and_(mark.c.instance == self._instance, mark.c.kind == kind, waits(mark), is_due(mark, cutoff))
        if since != NOTHING_DUE:
            due = and_(due, not_(is_due(mark, since)))
        oldest: int | None = None
        sums: Counter[str] = Counter()
        held: dict[Kept, Counter[str]] = {kept: Counter() for kept in self._foreseen}
        for page in self._pages(due):
            row = self._c.execute(self._sums().where(page)).one()._mapping
            oldest = row["oldest"] if oldest is None else oldest
            sums.update(_counts(row))
            before: ColumnElement[bool] = false()
            for kept, condition in self._foreseen.items():  # a mark with two answers counts for the first one
                of_page = self._sums().where(page, and_(condition, not_(before)))
                held[kept].update(_counts(self._c.execute(of_page).one()._mapping))
                before = or_(before, condition)
        objects, is_estimated = self._objects(kind, sums), self._unlisted(kind, sums) > 0
        return KindPlan(
            kind=kind,
            cutoff=cutoff,
            since=since,
            oldest=oldest,
            objects=objects,
            estimated=is_estimated,
            guessed=is_estimated and self._mean(kind) is None,
            limited=is_limited(kind, self._policy),
            shards=tuple(self._shards(due, sums["marks"], shard_count(sums["marks"], objects))),
            held=tuple(
                HeldMarks(
                    reason=kept.reason,
                    subject=kept.subject,
                    objects=self._objects(kind, of_kept),
                    **{name: of_kept[name] for name in SUMMED},
                )
                for kept, of_kept in held.items()
                if of_kept["marks"]
            ),
            **{column: sums[column] for column in (*SUMMED, "ages")},
        )

    def _objects(self, kind: str, sums: Mapping[str, int]) -> int:
        """Return for how many objects marks stand: the keys that they name, and estimates of their prefixes."""
        if not (unlisted := self._unlisted(kind, sums)):
            return sums["keys"]
        mean = self._mean(kind)
        return sums["keys"] + round(unlisted * (ASSUMED_OBJECTS if mean is None else mean))

    def _unlisted(self, kind: str, sums: Mapping[str, int]) -> int:
        """Return how many of these marks have files that only a listing would show."""
        return 0 if kind in self._policy.fileless else sums["unlisted"]

    def _mean(self, kind: str) -> float | None:
        """Return how many objects one recent mark of the kind had, of marks that named no keys; None: it is unknown."""
        if not self._means:
            mark, history = self._db.t.mark, self._db.t.mark_history
            # Marks that wait for their second pass are all there is to learn from on the first days.
            waiting = select(mark.c.kind, mark.c.objects_gone.label("objects"), mark.c["keys"].label("named"))
            waiting = waiting.where(mark.c.instance == self._instance, mark.c.state == CLAIMED)
            gone = select(history.c.kind, history.c.objects, history.c["keys"].label("named"))
            gone = gone.where(history.c.instance == self._instance, history.c.absorbed.is_(False))
            gone = gone.where(history.c.discarded.is_(None)).order_by(history.c.gone_at.desc())
            for rows in (waiting.where(mark.c.first_pass_at.is_not(None), mark.c["keys"].is_(None)), gone):
                sample = rows.limit(SAMPLE_ROWS).subquery()
                means = select(sample.c.kind, func.avg(sample.c.objects)).where(sample.c.named.is_(None))
                self._means |= {one: float(mean) for one, mean in self._c.execute(means.group_by(sample.c.kind))}
        if kind not in self._means:  # the newest history rows are all of other kinds: read tallies of rounds
            tally, round_ = self._db.t.tally, self._db.t.round
            of_instance = and_(round_.c.id == tally.c.round, round_.c.instance == self._instance)
            objects = tally.c.deleted + tally.c.absent + tally.c.hidden
            tallies = select(tally.c.removed, objects.label("objects")).join(round_, of_instance)
            tallies = tallies.where(tally.c.kind == kind, tally.c.removed > 0)
            recent = tallies.order_by(tally.c.round.desc()).limit(SAMPLE_ROWS).subquery()
            sums = select(func.sum(recent.c.objects).label("objects"), func.sum(recent.c.removed).label("removed"))
            row = self._c.execute(sums).one()
            self._means[kind] = float(row.objects) / float(row.removed) if row.removed else None
        return self._means[kind]

    def _pages(self, marks: ColumnElement[bool]) -> Iterator[ColumnElement[bool]]:
        """Yield conditions that divide marks of a kind in the order of their index: no statement takes long."""
        rest = marks
        while last := self._last_of(rest, PAGE_MARKS):
            after = self._is_after(last)
            yield and_(rest, not_(after))
            rest = and_(marks, after)
        yield rest

    def _shards(self, due: ColumnElement[bool], marks: int, shards: int) -> Iterator[PlannedShard]:
        """Yield shards of about the same number of marks, in the order of their index."""
        size, rest = -(-marks // shards), due
        while marks > size and (last := self._skip(rest, size)):
            yield PlannedShard(marks=size, until=last)
            rest, marks = and_(due, self._is_after(last)), marks - size
        if shards > 1:
            yield PlannedShard(marks=marks)

    def _skip(self, marks: ColumnElement[bool], count: int) -> Cursor | None:
        """Return the position of the last of so many marks, page by page; None: there are fewer."""
        last, rest = None, marks
        while count:
            step = min(count, PAGE_MARKS)
            if (last := self._last_of(rest, step)) is None:
                return None
            rest, count = and_(marks, self._is_after(last)), count - step
        return last

    def _last_of(self, marks: ColumnElement[bool], count: int) -> Cursor | None:
        """Return the position of the last of so many marks, at most a page; None: there are fewer."""
        self._heartbeat()
        mark = self._db.t.mark
        columns = (mark.c.retention_starts_at, mark.c.id)
        row = self._c.execute(select(*columns).where(marks).order_by(*columns).offset(count - 1).limit(1)).one_or_none()
        return Cursor(retention_starts_at=row.retention_starts_at, id=row.id) if row else None

    def _is_after(self, cursor: Cursor) -> ColumnElement[bool]:
        """Return the condition that a mark is after a position, as one row comparison."""
        mark = self._db.t.mark
        position = tuple_(mark.c.retention_starts_at, mark.c.id)
        start = literal(cursor.retention_starts_at, mark.c.retention_starts_at.type)
        return position > tuple_(start, literal(cursor.id, mark.c.id.type))

    def _sums(self) -> Select[Any]:
        """Return the query that sums up marks."""
        mark = self._db.t.mark
        age = cast(func.floor(extract("epoch", mark.c.retention_starts_at) * 1000), BigInteger())  # ms, as in Python
        return select(
            func.count().label("marks"),
            func.coalesce(func.sum(func.jsonb_array_length(mark.c["keys"])), 0).label("keys"),
            func.coalesce(func.sum(case((mark.c.prefix.is_not(None), 1), else_=0)), 0).label("prefixes"),
            func.coalesce(func.sum(case((mark.c["keys"].is_(None), 1), else_=0)), 0).label("unlisted"),
            sum_of(mark.c.bytes).label("bytes"),
            func.min(mark.c.retention_starts_at).label("oldest"),
            func.coalesce(func.sum(age % AGES_MODULUS), 0).label("ages"),
        )

    def measure_again(self, planned: KindPlan) -> KindPlan:
        """Return what a planned kind would be now, at its own cutoff."""
        return self.measure_due(planned.kind, planned.cutoff, planned.since)

    def kinds_stopped_at_limit(self) -> frozenset[str]:
        """Return the kinds of which the last round left marks because of the limits."""
        t = self._db.t.round
        newest = select(t.c.report).where(t.c.instance == self._instance, t.c.report.is_not(None))
        report = self._c.execute(newest.order_by(t.c.id.desc()).limit(1)).scalar_one_or_none()
        if report is None:
            return frozenset()
        kinds = RoundReport.model_validate(report).kinds
        return frozenset(k.kind for k in kinds if KeepReason.LIMIT in count_by_reason(k.kept))

    def count_claimed(self, now: int) -> int:
        """Return how many claimed marks a round would finish first."""
        mark = self._db.t.mark
        can_be_finished = or_(mark.c.first_pass_at.is_(None), mark.c.next_try_at <= now)
        # An absorbed child ends with its parent; a failed delete is tried again once a day, and is no plan's reason.
        by_itself = and_(mark.c.absorbed.is_(False), mark.c.quarantined_reason.is_(None))
        claimed = and_(mark.c.instance == self._instance, mark.c.state == CLAIMED, can_be_finished, by_itself)
        return int(self._c.execute(select(func.count()).where(claimed)).scalar_one())


def _counts(row: Mapping[Any, Any]) -> dict[str, int]:
    """Return the counts of a row of ``Measure._sums``. Pure."""
    return {column: int(value) for column, value in row.items() if column != "oldest"}


class QuarantineCount(NamedTuple):
    """Quarantined marks with one reason; ``since``: when the oldest of them was marked (ms since 1970)."""

    marks: int
    since: int


def count_quarantined(db: Database, c: Connection, instance: str) -> dict[str, QuarantineCount]:
    """Return how many marks are quarantined, by reason."""
    mark = db.t.mark
    quarantined = and_(mark.c.instance == instance, mark.c.quarantined_reason.is_not(None))
    oldest = func.min(mark.c.marked_at, type_=mark.c.marked_at.type)
    by_reason = select(mark.c.quarantined_reason, func.count(), oldest).where(quarantined)
    rows = c.execute(by_reason.group_by(mark.c.quarantined_reason))
    return {str(reason): QuarantineCount(marks, since) for reason, marks, since in rows}


class FoundKinds(NamedTuple):
    """The kinds of an instance's unclaimed marks: all that have a retention, and the first of the others."""

    names: Sequence[str]
    more: int = 0
    """At least so many other kinds, which have no retention; they are not named."""


def find_kinds(
    db: Database, c: Connection, instance: str, retentions: Collection[str], most: int = MOST_KINDS
) -> FoundKinds:
    """Return the kinds of one instance's unclaimed marks; see ``kinds_by_instance``."""
    return kinds_by_instance(db, c, {instance: retentions}, most)[instance]


def kinds_by_instance(
    db: Database, c: Connection, retentions: Mapping[str, Collection[str]], most: int = MOST_KINDS
) -> Mapping[str, FoundKinds]:
    """Return the kinds of each instance's unclaimed marks, read from the index with one seek for each kind.

    ``retentions``: its kinds with a retention. An owner's role may use any number of others: ``most`` are named.
    """
    mark, instance = db.t.mark, db.t.instance

    def first(of: ColumnElement[str], *conditions: ColumnElement[bool]) -> ColumnElement[str]:
        # Not min(): PostgreSQL reads all marks for it where it expects few of them to wait.
        first_kind = select(mark.c.kind).where(mark.c.instance == of, waits(mark), *conditions)
        return first_kind.order_by(mark.c.kind).limit(1).scalar_subquery()

    seeks = {name: len(kinds) + most + MOST_COUNTED for name, kinds in retentions.items()}
    begin = select(instance.c.id.label("instance"), first(instance.c.id).label("kind"), literal(1).label("seeks"))
    hop = begin.where(in_list(instance.c.id, seeks)).cte("hop", recursive=True)
    step = select(hop.c.instance, first(hop.c.instance, mark.c.kind > hop.c.kind), hop.c.seeks + 1)
    hop = hop.union_all(step.where(hop.c.kind.is_not(None), hop.c.seeks < max(seeks.values(), default=0)))
    found: dict[str, list[str]] = {name: [] for name in seeks}
    for name, kind in c.execute(select(hop.c.instance, hop.c.kind).where(hop.c.kind.is_not(None))):
        if len(found[name]) < seeks[name]:
            found[name].append(kind)
    others = {name: [kind for kind in kinds if kind not in retentions[name]] for name, kinds in found.items()}
    crowded = {name: retentions[name] for name, kinds in others.items() if len(kinds) > most}
    if crowded:
        pairs = [{"instance": name, "kind": kind} for name, kinds in crowded.items() for kind in kinds]
        pair = as_rows(pairs, instance=Text(), kind=Text())
        exists = first(pair.c.instance, mark.c.kind == pair.c.kind).is_not(None)
        found |= {name: kinds[:most] for name, kinds in others.items() if name in crowded}
        for name, kind in c.execute(select(pair.c.instance, pair.c.kind).where(exists)):
            found[name].append(kind)
    return {name: FoundKinds(sorted(kinds), max(0, len(others[name]) - most)) for name, kinds in found.items()}
