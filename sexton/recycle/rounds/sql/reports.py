"""What comes after a round: its report, the counters that outlive it, and when the next one is due.

``RoundSchedule`` decides which instances have their next round now, as many as there are free slots.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, func, literal, literal_column, select, union_all

from sexton.database.engine import Database
from sexton.database.rows import BYTES, MOST_SUM, NORMAL, OBJECTS, REMOVED, in_list, newest
from sexton.kernel.errors import BadInput
from sexton.kernel.live import Live
from sexton.marks.kept import Kept, count_faults
from sexton.marks.model import MarkState
from sexton.marks.sql.leases import busy
from sexton.operators.controls.policy import halt_by_instance
from sexton.operators.controls.store import ControlStore
from sexton.recycle.model import JOB, PARTIAL, SUCCEEDED, Counts, KindReport, KindVaultCounts, RoundReport, UnknownRound
from sexton.recycle.planning.model import Plan
from sexton.recycle.rounds.model import CloseOrder, DueInstances, KindProgress, RoundRow
from sexton.recycle.rounds.policy import next_round, overdue_since
from sexton.storage.port import NOT_LISTED

MAX_ANSWERS, TEXT_CHARACTERS = 1_000, 4_000
"""Answers why marks were kept, and characters of a text, that a report has of an order."""
COPIED = ("plan", "error", "scanned", "due", "quarantined", "kept", "protected_bytes")
"""Fields that a report has of its order as they are."""
RUNNING: ColumnElement[str] = literal_column("'RUNNING'")
"""``RoundState.RUNNING`` as text: the planner must see that the partial index applies."""
Sent = TypeVar("Sent", CloseOrder, KindProgress)


class Reports:
    """Find stored rounds and their reports."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def report(self, round_: int) -> RoundReport:
        """Return the stored report of a round that has ended."""
        report = self.round(round_).report
        if report is None:
            raise BadInput(f"round {round_} has no report: it is running, or was cut off; see: sexton status")
        return report

    def round(self, round_: int) -> RoundRow:
        """Return one round, or raise ``UnknownRound``."""
        t = self._db.t.round
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == round_)).one_or_none()
        if row is None:
            raise UnknownRound(f"there is no round {round_}; see: sexton round list")
        return _round_row(row)

    def rounds(self, instance: str | None = None, last: int = 20, before: int | None = None) -> Sequence[RoundRow]:
        """Return the newest rounds, newest first; ``before``: only those with lower numbers."""
        with self._db.read() as c:
            return [_round_row(r) for r in c.execute(newest(self._db.t.round, last, instance, before))]

    def find_round(self, instance: str, last: int = 1) -> Sequence[RoundReport]:
        """Return the newest reports of an instance, newest first; a running round has no report yet."""
        t = self._db.t.round
        reports = select(t.c.report).where(t.c.instance == instance, t.c.report.is_not(None))
        with self._db.read() as c:
            rows = c.execute(reports.order_by(t.c.id.desc()).limit(last)).scalars()
            return [RoundReport.model_validate(row) for row in rows]

    def newest_reports(self, instances: Iterable[str]) -> Mapping[str, RoundReport]:
        """Return the newest report of each of these instances that has one."""
        t, instance = self._db.t.round, self._db.t.instance
        reports = select(t.c.report).where(t.c.instance == instance.c.id, t.c.report.is_not(None))
        report = reports.order_by(t.c.id.desc()).limit(1).correlate(instance).scalar_subquery()
        with self._db.read() as c:
            rows = c.execute(select(instance.c.id, report).where(in_list(instance.c.id, instances))).all()
        return {name: RoundReport.model_validate(value) for name, value in rows if value is not None}


def _round_row(row: Any) -> RoundRow:
    """Return a round as its report says that it ended: its column only says whether it ran to its end."""
    return RoundRow(**dict(row._mapping) | ({"state": row.report["state"]} if row.report else {}))


def build(db: Database, c: Connection, order: CloseOrder) -> RoundReport:
    """Build a round's report from the ledger of its workflow (``order``) and the counts in the database (``tally``).

    Everyone who reaches Temporal can send an order: of its names only those count that rows have, because counters keep
    them permanently, and its numbers end where they can be shown.
    """
    t, instance, round_ = db.t, order.opened.lease.instance, order.opened.round
    order = _bounded(order)
    counted = select(t.tally).where(t.tally.c.round == round_).order_by(t.tally.c.kind, t.tally.c.vault)
    rows = c.execute(counted.with_for_update())  # a page of a late worker counts before this, or not at all
    tallies = tuple(KindVaultCounts(**r._mapping) for r in rows)
    # Claimed marks that await their first pass; those claimed with their parent are part of it.
    mark = t.mark
    claimed = and_(mark.c.instance == instance, mark.c.state == MarkState.CLAIMED, mark.c.first_pass_at.is_(None))
    own = [mark.c.quarantined_reason.is_(None), mark.c.absorbed.is_(False)]
    waiting = int(c.execute(select(func.count()).where(claimed, *own)).scalar_one())
    known = set(c.execute(select(t.vault.c.name).where(t.vault.c.instance == instance)).scalars())
    # How the round saw each vault, also if no mark of it was due; in observe mode it looked at none.
    fault_of, details = order.opened.excluded_vaults | order.faults, order.fault_details | order.opened.fault_details
    seen = order.opened.vaults if order.opened.may_delete else ()
    vaults = {name: fault_of.get(name, NORMAL) for name in seen if name in known}
    faults = count_faults(order.kept)
    if not faults and not {NORMAL, NOT_LISTED}.issuperset(vaults.values()):
        faults = waiting  # nothing was kept unclaimed, but files of claimed marks could not be tried
    started = c.execute(select(t.round.c.started_at).where(t.round.c.id == round_)).scalar_one()
    sums = {name: sum(getattr(tally, name) for tally in tallies) for name in Counts.model_fields}
    return RoundReport(
        round=round_,
        instance=instance,
        state=PARTIAL if order.outcome == SUCCEEDED and faults else order.outcome,
        observed=not (order.opened.may_delete or tallies),
        waiting=waiting,
        faults=faults,
        tallies=tallies,
        kinds=_kinds(db, c, order, tallies),
        vaults=vaults,
        fault_details={name: details[name][:TEXT_CHARACTERS] for name in vaults if name in details},
        leases=order.leases,
        lost_leases=order.lost_leases,
        adoption_ms=order.adoption_ms,
        adoption_note=order.adoption_note,
        started_at=started,
        **{name: getattr(order, name) for name in COPIED},
        **sums,
    )


def _bounded(message: Sent) -> Sent:
    """Return an order, or the progress of a kind, with numbers from 0 to ``MOST_SUM`` and with short texts."""
    answers: dict[Kept, int] = {}
    for answer, marks in list(message.kept.items())[:MAX_ANSWERS]:
        short = answer._replace(subject=answer.subject[:TEXT_CHARACTERS], detail=answer.detail[:TEXT_CHARACTERS])
        answers[short] = min(answers.get(short, 0) + max(marks, 0), MOST_SUM)
    numbers = {name: min(max(n, 0), MOST_SUM) for name, n in message if type(n) is int}
    texts = {name: text[:TEXT_CHARACTERS] for name, text in message if type(text) is str}
    return message.model_copy(update={**numbers, **texts, "kept": answers})


def _kinds(
    db: Database, c: Connection, order: CloseOrder, tallies: Sequence[KindVaultCounts]
) -> tuple[KindReport, ...]:
    """Return the report of each kind: what the plan listed as due, and what was deleted by the counts."""
    body = c.execute(select(db.t.plan.c.body).where(db.t.plan.c.id == order.plan)).scalar_one_or_none()
    planned = {k.kind: k for k in Plan.model_validate(body).kinds} if body else {}
    progress = {k.kind: _bounded(k) for k in order.kinds}
    of_instance = select(db.t.instance.c.retentions).where(db.t.instance.c.id == order.opened.lease.instance)
    agreed = c.execute(of_instance).scalar_one_or_none() or {}
    kinds = sorted(planned.keys() | (progress.keys() & agreed.keys()) | {tally.kind for tally in tallies})
    fields = {"scanned", "elapsed_ms", "kept", "error", "note"}
    summed = ("claimed", "removed", "deleted", "hidden", "size_unknown")
    reports = []
    for kind in kinds:
        of_kind = [tally for tally in tallies if tally.kind == kind]
        report = KindReport(
            kind=kind,
            due=planned[kind].marks if kind in planned else 0,
            due_bytes=planned[kind].bytes if kind in planned else 0,
            bytes=sum(tally.bytes_freed + tally.bytes_estimated for tally in of_kind),
            **{name: sum(getattr(tally, name) for tally in of_kind) for name in summed},
            **progress[kind].model_dump(include=fields) if kind in progress else {},
        )
        reports.append(report)
    return tuple(reports)


def read_counters(db: Database, c: Connection) -> Mapping[tuple[str, str, str], int]:
    """Return every counter by (instance, name, label).

    The end of a round moves its counts to the counters in one transaction. So one statement, which has one snapshot,
    reads both: no count is seen twice, and none is missing in between.
    """
    counter, round_, t = db.t.counter, db.t.round, db.t.tally
    stored = select(counter.c.instance, counter.c.name, counter.c.label, counter.c.value)
    running = round_.join(t, t.c.round == round_.c.id)
    counted = [
        select(round_.c.instance, literal(name).label("name"), t.c.kind.label("label"), number)
        .select_from(running)
        .where(round_.c.state == RUNNING)
        for name, number in (
            (REMOVED, t.c.removed),
            (OBJECTS, t.c.deleted + t.c.hidden),
            (BYTES, t.c.bytes_freed + t.c.bytes_estimated),
        )
    ]
    sums: Counter[tuple[str, str, str]] = Counter()
    for instance, name, label, value in c.execute(union_all(stored, *counted)):
        sums[instance, name, label] += int(value)
    return {key: min(value, MOST_SUM) for key, value in sums.items()}


SPARE = 100
"""Instances returned beyond the free slots."""


class RoundSchedule:
    """Finds due instances, the one that waited longest first."""

    def __init__(self, db: Database, controls: ControlStore, interval_seconds: int | Live[int], at_once: int) -> None:
        self._db = db
        self._controls = controls
        self._interval_seconds = Live.of(interval_seconds)
        self._at_once = at_once

    def due(self) -> DueInstances:
        """Return the instances whose round should start now, and how many may start.

        More are returned than may start. A paused round has no lease, so it occupies no slot here, and its workflow id
        prevents a second start. Instances with such rounds come last: otherwise a few of them would block the others.
        """
        t = self._db.t
        lease, instance, round_ = t.lease, t.instance, t.round
        with self._db.read() as c:
            now = self._db.now(c)
            working = set(c.execute(select(lease.c.instance).where(busy(lease, JOB))).scalars())
            free = self._at_once - len(working)
            if free <= 0:
                return DueInstances()
            rows = c.execute(
                select(instance.c.id, instance.c.turn_at, instance.c.retry_at).order_by(
                    instance.c.turn_at.is_not(None), instance.c.turn_at, instance.c.id
                )
            ).all()
            halted = halt_by_instance(self._controls.all_in(c), now)
        due = (r.id for r in rows if next_round(r.turn_at, r.retry_at, self._interval_ms(r.id), now) <= now)
        ready = [i for i in due if i not in working and halted(i) is None]
        with self._db.read() as c:
            is_waiting = and_(in_list(round_.c.instance, ready), round_.c.waiting.is_not(None))
            waiting = set(c.execute(select(round_.c.instance).where(is_waiting)).scalars()) if ready else set()
        ready.sort(key=lambda i: i in waiting)
        return DueInstances(instances=tuple(ready[: free + SPARE]), slots=free)

    def next_round(self, instance: str) -> int:
        """Return when the instance has its next round (ms since 1970; in the past: as soon as a slot is free)."""
        t = self._db.t.instance
        with self._db.read() as c:
            return self.next_round_of(c.execute(select(t).where(t.c.id == instance)).one(), self._db.now(c))

    def next_round_of(self, row: Any, now: int) -> int:
        """Return the same of a row of ``instance``, at ``now`` (ms since 1970)."""
        return next_round(row.turn_at, row.retry_at, self._interval_ms(row.id), now)

    def overdue(self, ready: Iterable[Any], free: int, now: int) -> dict[str, int]:
        """Return the instances whose round nothing has begun for long, and since when they are due.

        ``ready``: rows of ``instance`` that no round works on and nothing halts. Beyond the first ``free`` they wait
        for a slot.
        """
        due = [row for row in ready if self.next_round_of(row, now) <= now]
        due.sort(key=lambda row: (row.turn_at is not None, row.turn_at or 0, row.id))
        since = {
            row.id: overdue_since(row.turn_at, row.retry_at, row.created_at, self._interval_ms(row.id), now)
            for row in due[: max(0, free)]
        }
        return {name: instant for name, instant in since.items() if instant is not None}

    def _interval_ms(self, instance: str) -> int:
        return self._interval_seconds(instance) * 1000
