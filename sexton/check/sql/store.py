"""Runs of the check and their findings, as rows. Nothing is decided about marks here, so no guard is taken.

A run tells what it sees page by page and may be killed anywhere: only ``conclude`` draws conclusions, from all it told.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    Text,
    and_,
    case,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from sexton.check.model import (
    CheckReport,
    Discrepancy,
    Evidence,
    Finding,
    FindingState,
    PreviousRun,
    Run,
    RunState,
    RunVerdict,
    Type,
)
from sexton.check.policy import APART_MS, judge
from sexton.check.port import UnknownCheck
from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.rows import as_rows, in_list
from sexton.kernel.errors import BadInput

LOOKED_AT_TWICE = (Type.LOST, Type.SIZE_MISMATCH)
"""What a second look at the object and its record confirms; orphans take two runs."""
OVER = (FindingState.GONE, FindingState.REPAIRED)
NAMES = tuple(Discrepancy.model_fields)


class CheckStore:
    """Runs and findings."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def now(self) -> int:
        with self._db.read() as c:
            return self._db.now(c)

    def begin(self, instance: str, run: str, by: str = "") -> Run:
        """Begin a run under the name of its workflow run; repeating it returns the same run, with the same cutoff."""
        t = self._db.t.check_run
        with self._db.write() as c:
            stale = and_(t.c.instance == instance, t.c.state == RunState.RUNNING, t.c.run != run)
            gone = {"state": RunState.PARTIAL, "ended_at": self._db.now(c), "lacks": ["it was cut off, another began"]}
            c.execute(update(t).where(stale).values(**gone))
            values = {"instance": instance, "run": run, "state": RunState.RUNNING, "cutoff": self._db.now(c)}
            values["asked_by"] = by
            c.execute(self._insert(t).values(**values).on_conflict_do_nothing(index_elements=["run"]))
            made = _run(c.execute(select(t).where(t.c.run == run)).one())
        if made.instance != instance:
            raise BadInput(f"run {run} checks {made.instance}, not {instance}")
        return made

    def progress(self, run: Run) -> Any:
        """Return what ``went_on`` stored last; None: nothing yet."""
        t = self._db.t.check_run
        with self._db.read() as c:
            return c.execute(select(t.c.progress).where(t.c.id == run.id)).scalar_one()

    def running(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these names of workflow runs are of checks that have not ended."""
        t = self._db.t.check_run
        its = and_(t.c.state == RunState.RUNNING, in_list(self._db, t.c.run, sorted(names)))
        with self._db.read() as c:
            return frozenset(c.execute(select(t.c.run).where(its)).scalars())

    def went_on(self, run: Run, progress: Any) -> None:
        """Store what of the run is done; small JSON."""
        t = self._db.t.check_run
        with self._db.write() as c:
            c.execute(update(t).where(t.c.id == run.id).values(progress=progress))

    def saw(self, run: Run, found: Sequence[Discrepancy]) -> None:
        """Note what a run sees; the same again changes nothing. What was over by then is open again, and unproven."""
        t, once = self._db.t.finding, {(f.type, f.vault, f.key): f for f in found}
        if not once:
            return
        text, number = dict.fromkeys(("type", "vault", "key", "etag", "record", "detail"), Text()), BigInteger()
        # No database column holds NUL; such a key is shown with a mark in its place, and never a candidate.
        rows = (f.model_dump(mode="json") | {"key": f.key.replace("\0", "\ufffd")} for f in once.values())
        given = as_rows(self._db, rows, **text, expected=number, size=number)
        with self._db.write() as c:
            if not self._runs(c, run):
                return  # late word of an attempt that was given up: the run has drawn its conclusions
            now = literal(self._db.now(c), t.c.first_seen.type)
            fixed: dict[str, Any] = {"instance": literal(run.instance), "seen_in": literal(run.id), "first_seen": now}
            columns = [*(v.label(n) for n, v in fixed.items()), *(given.c[n] for n in NAMES)]
            told = self._insert(t).from_select([*fixed, *NAMES], select(*columns).where(true()))
            # An orphan's repair is a mark, beside which it is seen until it goes; what else was repaired is so no more.
            over = or_(
                t.c.state == FindingState.GONE, and_(t.c.state == FindingState.REPAIRED, t.c.type != Type.ORPHAN)
            )
            # Another object under the same key is another finding: nothing is known of it yet.
            other = or_(t.c.etag != told.excluded.etag, t.c.size.is_distinct_from(told.excluded.size))
            anew = or_(over, and_(other, t.c.state != FindingState.ACCEPTED))
            again = {n: told.excluded[n] for n in ("expected", "size", "etag", "record", "detail", "seen_in")}
            again |= {n: case((anew, null()), else_=t.c[n]) for n in ("proven_at", "confirmed_at", "proven_in")}
            again |= {"state": case((anew, FindingState.OPEN.value), else_=t.c.state)}
            again |= {"first_seen": case((anew, told.excluded.first_seen), else_=t.c.first_seen)}
            c.execute(told.on_conflict_do_update(index_elements=["instance", "type", "vault", "key"], set_=again))

    def confirm(self, run: Run, findings: Collection[int]) -> int:
        """Confirm what a second look found as the first did; return how many. Heeded once the run is whole."""
        t = self._db.t.finding
        its = and_(t.c.instance == run.instance, t.c.seen_in == run.id, t.c.type.in_(LOOKED_AT_TWICE))
        with self._db.write() as c:
            if not self._runs(c, run):
                return 0
            named = and_(its, t.c.confirmed_at.is_(None), in_list(self._db, t.c.id, findings))
            return c.execute(update(t).where(named).values(confirmed_at=self._db.now(c))).rowcount

    def refute(self, run: Run, findings: Collection[int]) -> int:
        """Call gone what a second look did not find: its object is back, or its record is not."""
        t = self._db.t.finding
        its = and_(t.c.instance == run.instance, t.c.seen_in == run.id, t.c.type.in_(LOOKED_AT_TWICE))
        gone = {"state": FindingState.GONE, "confirmed_at": None, "proven_at": None}
        with self._db.write() as c:
            if not self._runs(c, run):
                return 0
            named = and_(its, t.c.state.not_in(OVER), in_list(self._db, t.c.id, findings))
            return c.execute(update(t).where(named).values(**gone)).rowcount

    def seen_in(self, run: Run, types: Collection[Type], after: int = 0, limit: int = 1_000) -> list[Finding]:
        """Return what the run saw of these types and is not over, in the order of their numbers, from one on."""
        t = self._db.t.finding
        its = and_(t.c.instance == run.instance, t.c.seen_in == run.id, t.c.type.in_(types), t.c.id > after)
        chosen = select(t).where(its, t.c.state.not_in(OVER)).order_by(t.c.id).limit(limit)
        with self._db.read() as c:
            return [_finding(row) for row in c.execute(chosen)]

    def conclude(self, run: Run, evidence: Evidence) -> RunVerdict:
        """End a run: judge it, and only where it is whole confirm, prove and call gone. Repeating it says the same."""
        t, f = self._db.t.check_run, self._db.t.finding
        with self._db.write() as c:
            row = c.execute(select(t).where(t.c.id == run.id).with_for_update()).one()
            if row.state != RunState.RUNNING:
                return RunVerdict(lacks=tuple(row.lacks or ()))
            verdict = judge(evidence, self._before(c, run))
            mine = and_(f.c.instance == run.instance, f.c.seen_in == run.id)
            if verdict.whole:
                proven = and_(mine, f.c.proven_at.is_(None))
                c.execute(update(f).where(proven).values(proven_at=run.cutoff))
                c.execute(update(f).where(mine).values(proven_in=run.id))
                # Repaired and there all the same: its mark was taken back. It is as open as any.
                mark = self._db.t.mark
                here = and_(mark.c.instance == f.c.instance, mark.c.id == f.c.mark)
                marked = exists().where(here, mark.c.kind == Type.ORPHAN.lower())
                c.execute(
                    update(f)
                    .where(mine, f.c.type == Type.ORPHAN, f.c.state == FindingState.REPAIRED, ~marked)
                    .values(state=FindingState.OPEN, proven_at=run.cutoff, confirmed_at=None)
                )
                old = and_(mine, f.c.type == Type.ORPHAN, f.c.proven_at <= run.cutoff - APART_MS)
                c.execute(update(f).where(old, f.c.confirmed_at.is_(None)).values(confirmed_at=self._db.now(c)))
                unseen = and_(f.c.instance == run.instance, f.c.seen_in < run.id, f.c.state != FindingState.GONE)
                c.execute(update(f).where(unseen).values(state=FindingState.GONE))
            else:  # what a second look said counts for nothing either: nobody knows what it was compared with
                unproven = and_(mine, f.c.proven_at.is_(None))
                c.execute(update(f).where(unproven).values(confirmed_at=None))
            state = RunState.WHOLE if verdict.whole else RunState.PARTIAL
            told = {"evidence": evidence.model_dump(mode="json"), "lacks": list(verdict.lacks)}
            told["standing"] = {type_: [n, sure] for type_, n, sure in self._counts(c, run.instance)}
            c.execute(update(t).where(t.c.id == run.id).values(state=state, ended_at=self._db.now(c), **told))
        return verdict

    def accept(self, finding: int, by: str, why: str) -> Finding:
        """Say of a finding that it is as it should be."""
        check_text("why", why)
        t = self._db.t.finding
        said = {"state": FindingState.ACCEPTED, "said_by": f"{by}: {why}"}
        with self._db.write() as c:
            its = and_(t.c.id == finding, t.c.state.in_((FindingState.OPEN, FindingState.ACCEPTED)))
            row = c.execute(update(t).where(its).values(**said).returning(t)).one_or_none()
        if row is None:
            raise BadInput(f"there is no open finding {finding}")
        return _finding(row)

    def findings(
        self, instance: str, after: int = 0, limit: int = 100, *, confirmed: bool = False, of: Type | None = None
    ) -> list[Finding]:
        """Return open findings in the order of their numbers, from one on; only confirmed ones, or of a type."""
        t = self._db.t.finding
        which = t.c.confirmed_at.is_not(None) if confirmed else true()
        kind = true() if of is None else t.c.type == of
        its = and_(t.c.instance == instance, t.c.state == FindingState.OPEN, which, kind, t.c.id > after)
        with self._db.read() as c:
            return [_finding(row) for row in c.execute(select(t).where(its).order_by(t.c.id).limit(limit))]

    def repairable(self, instance: str, type_: Type, after: int, limit: int) -> list[Finding]:
        """Return open confirmed findings of a type, in the order of their numbers, from one on."""
        t = self._db.t.finding
        its = self._confirmed(instance, type_)
        with self._db.read() as c:
            found = c.execute(select(t).where(its, t.c.id > after).order_by(t.c.id).limit(limit))
            return [_finding(row) for row in found]

    def count_repairable(self, instance: str, type_: Type) -> dict[str, int]:
        """Return vault → how many there are."""
        t = self._db.t.finding
        counted = select(t.c.vault, func.count()).where(self._confirmed(instance, type_)).group_by(t.c.vault)
        with self._db.read() as c:
            return {row[0]: row[1] for row in c.execute(counted)}

    def runs(self, instance: str | None = None, limit: int = 20) -> list[Run]:
        """Return the newest runs, of one instance or of all."""
        t = self._db.t.check_run
        which = true() if instance is None else t.c.instance == instance
        with self._db.read() as c:
            return [_run(row) for row in c.execute(select(t).where(which).order_by(t.c.id.desc()).limit(limit))]

    def last(self, instance: str) -> Run | None:
        """Return the newest run that has ended."""
        t = self._db.t.check_run
        ended = select(t).where(t.c.instance == instance, t.c.state != RunState.RUNNING)
        with self._db.read() as c:
            row = c.execute(ended.order_by(t.c.id.desc()).limit(1)).one_or_none()
        return None if row is None else _run(row)

    def rebase(self, instance: str) -> int:
        """Compare the next runs with none so far: what is much less by now is as it should be. Return the last run's
        number; ``BadInput`` where there is none."""
        run, i = self.last(instance), self._db.t.instance
        if run is None:
            raise BadInput(f"{instance} was never checked; there is nothing to begin anew")
        with self._db.write() as c:
            c.execute(update(i).where(i.c.id == instance).values(check_base=run.id))
        return run.id

    def report(self, run: int) -> CheckReport:
        """Return a run and what stands open after it; ``UnknownCheck``."""
        t = self._db.t.check_run
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == run)).one_or_none()
            if row is None:
                raise UnknownCheck(f"there is no check {run}; see: sexton check list")
            counts = self._counts(c, row.instance)
        confirmed = {type_: n for type_, _, n in counts if n}
        return CheckReport(run=_run(row), found={type_: n for type_, n, _ in counts}, confirmed=confirmed)

    def last_whole(self, instance: str) -> Run | None:
        """Return the newest run that saw everything."""
        t = self._db.t.check_run
        whole = select(t).where(t.c.instance == instance, t.c.state == RunState.WHOLE)
        with self._db.read() as c:
            row = c.execute(whole.order_by(t.c.id.desc()).limit(1)).one_or_none()
        return None if row is None else _run(row)

    def _before(self, c: Connection, run: Run) -> PreviousRun | None:
        t = self._db.t.check_run
        i = self._db.t.instance
        base = select(i.c.check_base).where(i.c.id == run.instance).scalar_subquery()
        its = and_(t.c.instance == run.instance, t.c.state == RunState.WHOLE, t.c.id < run.id, t.c.id > base)
        whole = select(t).where(its)
        row = c.execute(whole.order_by(t.c.id.desc()).limit(1)).one_or_none()
        if row is None:
            return None
        saw, gone = Evidence.model_validate(row.evidence).listings, self._gone_since(c, run.instance, row.cutoff)
        objects = {i.vault: max(0, i.objects - gone.get(i.vault, 0)) for i in saw}
        return PreviousRun(objects=objects, live={i.vault: i.live for i in saw})

    def _gone_since(self, c: Connection, instance: str, since: int) -> dict[str, int]:
        """Return vault → objects that rounds begun since then deleted: that they are not there needs no explanation."""
        tally, round_ = self._db.t.tally, self._db.t.round
        its = and_(round_.c.instance == instance, round_.c.started_at >= since)
        counted = select(tally.c.vault, func.sum(tally.c.deleted + tally.c.hidden)).join_from(
            tally, round_, tally.c.round == round_.c.id
        )
        return {row[0]: int(row[1]) for row in c.execute(counted.where(its).group_by(tally.c.vault))}

    def _counts(self, c: Connection, instance: str) -> list[tuple[str, int, int]]:
        """Return (type, open findings, confirmed ones among them)."""
        f = self._db.t.finding
        open_ = and_(f.c.instance == instance, f.c.state == FindingState.OPEN)
        counted = select(f.c.type, func.count(), func.count(f.c.confirmed_at)).where(open_).group_by(f.c.type)
        return [(row[0], row[1], row[2]) for row in c.execute(counted.order_by(f.c.type))]

    def _confirmed(self, instance: str, type_: Type) -> ColumnElement[bool]:
        t = self._db.t.finding
        return and_(
            t.c.instance == instance, t.c.type == type_, t.c.state == FindingState.OPEN, t.c.confirmed_at.is_not(None)
        )

    def _runs(self, c: Connection, run: Run) -> bool:
        """Tell whether the run goes on, and keep it from being concluded until this transaction ends."""
        t = self._db.t.check_run
        state = c.execute(select(t.c.state).where(t.c.id == run.id).with_for_update(read=True)).scalar_one()
        return bool(state == RunState.RUNNING)

    def _insert(self, table: Table) -> Any:
        return (postgresql if self._db.dialect == "postgresql" else sqlite).insert(table)


def _run(row: Any) -> Run:
    return Run.model_validate({**row._mapping, "lacks": tuple(row.lacks or ())})


def _finding(row: Any) -> Finding:
    return Finding.model_validate(dict(row._mapping))
