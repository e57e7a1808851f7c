"""Reports of rounds: put together when a round ends, stored with it, read by every command and by the metrics."""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, func, select

from sexton.database.counters import NORMAL
from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message
from sexton.marks.keepers import count_faults
from sexton.marks.model import DONE
from sexton.recycle.model import KindReport, KindVaultCounts, RoundReport
from sexton.recycle.planning.model import Plan
from sexton.recycle.rounds.model import CloseOrder
from sexton.storage.port import NOT_LISTED


class RoundRow(Message):
    """One round in a list; instants in ms since 1970. A round without ``ended_at`` runs, or was cut off."""

    id: int
    instance: str
    state: str
    started_at: int
    ended_at: int | None
    plan: int | None
    report: RoundReport | None
    waiting: str | None = None
    waiting_since: int | None = None


class Reports:
    """Find stored rounds and their reports."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def report(self, round_: int) -> RoundReport:
        """Return the stored report of a round that has ended."""
        found = self.round(round_).report
        if found is None:
            raise BadInput(f"round {round_} has no report: it runs, or was cut off; see: sexton status")
        return found

    def round(self, round_: int) -> RoundRow:
        """Return one round, or raise ``BadInput``."""
        t = self._db.t.round
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == round_)).one_or_none()
        if row is None:
            raise BadInput(f"there is no round {round_}; see: sexton round list")
        return RoundRow(**row._mapping)

    def rounds(self, instance: str | None = None, last: int = 20) -> Sequence[RoundRow]:
        """Return the newest rounds, newest first."""
        t = self._db.t.round
        wanted = select(t).order_by(t.c.id.desc()).limit(last)
        if instance is not None:
            wanted = wanted.where(t.c.instance == instance)
        with self._db.read() as c:
            return [RoundRow(**r._mapping) for r in c.execute(wanted)]

    def find_round(self, instance: str, last: int = 1) -> Sequence[RoundReport]:
        """Return the newest reports of an instance, newest first; a running round has no report yet."""
        t = self._db.t.round
        wanted = select(t.c.report).where(t.c.instance == instance, t.c.report.is_not(None))
        with self._db.read() as c:
            found = c.execute(wanted.order_by(t.c.id.desc()).limit(last)).scalars()
            return [RoundReport.model_validate(r) for r in found]


def build(db: Database, c: Connection, order: CloseOrder) -> RoundReport:
    """Put a round's report together: from what the workflow tells, and from what the tallies say really went."""
    t, instance = db.t, order.opened.lease.instance
    rows = c.execute(
        select(t.tally).where(t.tally.c.round == order.opened.round).order_by(t.tally.c.kind, t.tally.c.vault)
    )
    tallies = tuple(KindVaultCounts(**r._mapping) for r in rows)
    left = and_(t.mark.c.instance == instance, t.mark.c.state == "CLAIMED", t.mark.c.first_pass_at.is_(None))
    waiting = c.execute(select(func.count()).where(left, t.mark.c.quarantined_reason.is_(None))).scalar_one()
    file = t.mark_file
    ours = select(t.mark.c.batch).where(left, t.mark.c.quarantined_reason.is_(None))
    gone = and_(file.c.batch.in_(ours.distinct()), file.c.outcome.in_(DONE))
    begun = c.execute(select(func.count()).select_from(file).where(gone)).scalar_one() if waiting else 0
    vaults = {name: order.faults.get(name, NORMAL) for name in order.opened.vaults}
    faults = count_faults(order.kept)
    if not faults and not {NORMAL, NOT_LISTED}.issuperset(vaults.values()):
        faults = waiting  # nothing was kept unclaimed, but files of claimed marks could not be tried
    started = c.execute(select(t.round.c.started_at).where(t.round.c.id == order.opened.round)).scalar_one()
    sums = {
        n: sum(getattr(tally, n) for tally in tallies)
        for n in KindVaultCounts.model_fields
        if n not in ("kind", "vault")
    }
    return RoundReport(
        round=order.opened.round,
        instance=instance,
        plan=order.plan,
        state=order.outcome,
        observed=not (order.opened.may_delete or tallies),
        error=order.error,
        scanned=order.scanned,
        due=order.due,
        quarantined=order.quarantined,
        waiting=waiting,
        begun=begun,
        kept=order.kept,
        protected_bytes=order.protected_bytes,
        faults=faults,
        tallies=tallies,
        kinds=_kinds(db, c, order, tallies),
        vaults=vaults,
        leases=order.leases,
        lost_leases=order.lost_leases,
        started_at=started,
        **sums,
    )


def _kinds(
    db: Database, c: Connection, order: CloseOrder, tallies: Sequence[KindVaultCounts]
) -> tuple[KindReport, ...]:
    """Return each kind's part: what the plan said was due, what the tallies say went."""
    body = c.execute(select(db.t.plan.c.body).where(db.t.plan.c.id == order.plan)).scalar_one_or_none()
    due = {k.kind: k for k in Plan.model_validate(body).kinds} if body else {}
    ran = {k.kind: k for k in order.kinds}
    found = []
    for kind in sorted(due.keys() | ran.keys() | {t.kind for t in tallies}):
        its = [t for t in tallies if t.kind == kind]
        found.append(
            KindReport(
                kind=kind,
                due=due[kind].marks if kind in due else 0,
                due_bytes=due[kind].bytes if kind in due else 0,
                claimed=sum(t.claimed for t in its),
                removed=sum(t.removed for t in its),
                deleted=sum(t.deleted for t in its),
                hidden=sum(t.hidden for t in its),
                bytes=sum(t.bytes_freed + t.bytes_estimated for t in its),
                **ran[kind].model_dump(include={"scanned", "elapsed_ms", "kept", "error", "note"})
                if kind in ran
                else {},
            )
        )
    return tuple(found)
