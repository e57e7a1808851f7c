"""Store the runs of checks and their findings, and decide which instances are due for a check.

Nothing here decides about marks, so no guard is taken.

A run stores what it sees page by page and may be killed at any moment. Only ``conclude`` changes the states of
findings, from everything that the run stored.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.check.model import (
    CheckReport,
    Discrepancy,
    Evidence,
    Finding,
    FindingState,
    FindingType,
    Run,
    RunState,
    UnknownCheck,
    UnknownFinding,
)
from sexton.check.policy import UNNAMED, checked_shrunken, judge, listed_objects, with_unnamed_counts
from sexton.check.sql.findings import (
    RUN_DAYS,
    conclude_findings,
    count_unnamed,
    is_open,
    open_counts,
    previous_run,
    recount,
    store_seen,
)
from sexton.database.contract_errors import check_text
from sexton.database.engine import AWAY, Database
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.kernel.live import Live
from sexton.operators.call_log import record_work

CHECKED_TWICE = (FindingType.LOST, FindingType.SIZE_MISMATCH)
"""Types that a second check of the object and its record confirms; an orphan is confirmed by two runs."""
PAGE_ROWS = 1_000
MOST_PAGES = 50
"""A check deletes at most this many pages of rows; the next check continues."""
AT_ONCE = 4
"""Checks that run at the same time in one deployment."""
STALE_MS = 2 * 86_400_000
"""A run that has not ended after this long was cut off, and no longer counts as running."""


class CheckStore:
    """Stores runs and their findings, and reads them for checks and for people."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def now(self) -> int:
        """Return the time of the database's clock, ms since 1970."""
        with self._db.read() as c:
            return self._db.now(c)

    def begin(self, instance: str, run: str, by: str = "") -> Run:
        """Begin a run, and end an earlier one of the instance that was cut off.

        Args:
            instance: the instance to check.
            run: the id of the workflow run; a repeated call with it returns the same run, with the same cutoff.
            by: who requested the check.

        Raises:
            BadInput: the workflow run checks another instance.
        """
        t, last = self._db.t.check_run, self.last_whole(instance)
        expected = {"expected_objects": listed_objects(last), "expected_records": last.records if last else 0}
        with self._db.write() as c:
            is_stale = and_(t.c.instance == instance, t.c.state == RunState.RUNNING, t.c.run != run)
            now, lacks = self._db.now(c), ["it was cut off, another began"]
            ended = {"state": RunState.PARTIAL, "ended_at": now, "missing_inputs": lacks, "counting_ms": 0}
            c.execute(update(t).where(is_stale).values(**ended))
            row = {"instance": instance, "run": run, "state": RunState.RUNNING, "cutoff": now, "asked_by": by}
            new_row = upsert(t).values(**row, **expected).on_conflict_do_nothing(index_elements=["run"])
            is_new = c.execute(new_row.returning(t.c.id)).first() is not None
            begun_run = _run(c.execute(select(t).where(t.c.run == run)).one())
            if is_new:
                record_work(self._db, c, "check", instance, f"check {begun_run.id}, run {run}", by)
        if begun_run.instance != instance:
            raise BadInput(f"run {run} checks {begun_run.instance}, not {instance}")
        return begun_run

    def stored(self, run: Run) -> Run:
        """Return a run as its row says; ``UnknownCheck``: no row has its number, instance and workflow run."""
        t = self._db.t.check_run
        stored = self._newest(and_(t.c.id == run.id, t.c.instance == run.instance, t.c.run == run.run))
        if stored is None:
            raise UnknownCheck(f"{run.run} is not the run of check {run.id} of {run.instance}; see: sexton check list")
        return stored

    def store_evidence(self, run: Run, evidence: Evidence) -> None:
        """Store what a running check has seen so far."""
        t = self._db.t.check_run
        is_running = and_(t.c.id == run.id, t.c.state == RunState.RUNNING)
        with self._db.write() as c:
            c.execute(update(t).where(is_running).values(evidence=evidence.model_dump(mode="json")))

    def count(self, run: Run, listed: int, records: int, counting_ms: int) -> None:
        """Store how far a running check is; not while the database is away, as only people wait for it."""
        t, counts = self._db.t.check_run, {"listed": listed, "records": records, "counting_ms": counting_ms}
        with suppress(*AWAY), self._db.write() as c:
            c.execute(update(t).where(t.c.id == run.id, t.c.state == RunState.RUNNING).values(**counts))

    def progress(self, run: Run) -> Any:
        """Return what ``store_progress`` stored last; None: nothing is stored."""
        t = self._db.t.check_run
        with self._db.read() as c:
            return c.execute(select(t.c.progress).where(t.c.id == run.id)).scalar_one()

    def running(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these workflow runs belong to checks that have not ended."""
        t = self._db.t.check_run
        is_running = and_(t.c.state == RunState.RUNNING, in_list(t.c.run, sorted(names)))
        with self._db.read() as c:
            return frozenset(c.execute(select(t.c.run).where(is_running)).scalars())

    def store_progress(self, run: Run, progress: Any) -> None:
        """Store the progress of a run as small JSON, so that another attempt need not repeat finished work."""
        t = self._db.t.check_run
        with self._db.write() as c:
            c.execute(update(t).where(t.c.id == run.id).values(progress=progress))

    def store_findings(self, run: Run, discrepancies: Sequence[Discrepancy]) -> None:
        """Store disagreements that a run found; storing the same ones again changes nothing.

        A finding that had ended is open again, and unproven.
        """
        unique = {(d.type, d.vault, d.key): d for d in discrepancies}
        if not unique:
            return
        with self._db.write() as c:
            if self._is_running(c, run):  # otherwise an abandoned attempt reports late: the run is concluded
                store_seen(self._db, c, run, list(unique.values()))

    def resolve(self, run: Run, disagrees: Mapping[int, bool]) -> int:
        """Confirm findings that the second check found again, and set the others to GONE; return how many it confirmed.

        A confirmation counts once the run is whole. What is not found again is back, or its record is deleted. Of an
        object that no record names a later whole run is the confirmation.

        Args:
            run: the running check.
            disagrees: id of a finding → whether its record and its object still disagree.
        """
        t = self._db.t.finding
        found_again, refuted = (
            [id_ for id_, is_true in disagrees.items() if is_true is which] for which in (True, False)
        )
        was_seen = self._seen_in(run, (*CHECKED_TWICE, *UNNAMED))
        with self._db.write() as c:
            if not self._is_running(c, run):
                return 0
            values = {"state": FindingState.GONE, "confirmed_at": None, "proven_at": None}
            is_refuted = and_(was_seen, self._not_ended(), in_list(t.c.id, refuted))
            c.execute(update(t).where(is_refuted).values(**values))
            is_unconfirmed = and_(
                self._seen_in(run, CHECKED_TWICE), t.c.confirmed_at.is_(None), in_list(t.c.id, found_again)
            )
            return c.execute(update(t).where(is_unconfirmed).values(confirmed_at=self._db.now(c))).rowcount

    def _not_ended(self) -> ColumnElement[bool]:
        """Return the condition that a finding has not ended; an orphan that is marked exists until it is deleted."""
        t = self._db.t.finding
        is_marked = and_(t.c.state == FindingState.REPAIRED, t.c.type == FindingType.ORPHAN)
        return or_(t.c.state.not_in((FindingState.GONE, FindingState.REPAIRED)), is_marked)

    def unresolved(self, run: Run, types: Collection[FindingType], after: int = 0, limit: int = 1_000) -> list[Finding]:
        """Return findings of these types that the run saw, unless they have ended, in the order of their ids."""
        t = self._db.t.finding
        query = select(t).where(self._seen_in(run, types), t.c.id > after, self._not_ended())
        with self._db.read() as c:
            return [Finding(**row._mapping) for row in c.execute(query.order_by(t.c.id).limit(limit))]

    def conclude(self, run: Run, evidence: Evidence) -> tuple[str, ...]:
        """End a run: judge it, and only if it is whole confirm, prove and end findings. Return what it lacks.

        A repeated call returns the same.
        """
        t = self._db.t.check_run
        with self._db.write() as c:
            row = c.execute(select(t).where(t.c.id == run.id).with_for_update()).one()
            if row.state != RunState.RUNNING:
                return tuple(row.missing_inputs or ())
            evidence = with_unnamed_counts(evidence, count_unnamed(self._db, c, run))
            lacks = judge(evidence, previous_run(self._db, c, run))
            conclude_findings(self._db, c, run, evidence, whole=not lacks)
            counts = open_counts(self._db, c, run.instance)
            values = {
                "state": RunState.PARTIAL if lacks else RunState.WHOLE,
                "ended_at": self._db.now(c),
                "evidence": evidence.model_dump(mode="json"),
                "missing_inputs": list(lacks),
                "counting_ms": 0,
                "open_counts": {type_: [open_, confirmed] for type_, open_, confirmed in counts},
            }
            c.execute(update(t).where(t.c.id == run.id).values(**values))
        return lacks

    def forget_old(self, instance: str) -> None:
        """Delete runs that ended more than ``RUN_DAYS`` ago, and GONE findings that were last seen by such a run.

        The newest run and the newest whole run stay, for people to see. Findings that are open, accepted or repaired
        stay too.
        """
        run, finding = self._db.t.check_run, self._db.t.finding
        newest = select(func.max(run.c.id)).where(run.c.instance == instance)
        needed = newest.union(newest.where(run.c.state == RunState.WHOLE))
        for _ in range(MOST_PAGES):
            with self._db.write() as c:
                ended_long_ago = run.c.ended_at < self._db.now(c) - RUN_DAYS * 86_400_000
                is_old = and_(run.c.instance == instance, run.c.state != RunState.RUNNING, ended_long_ago)
                last_old = c.execute(select(func.max(run.c.id)).where(is_old)).scalar_one()
                if last_old is None:
                    return
                of_instance = finding.c.instance == instance
                is_gone = and_(of_instance, finding.c.state == FindingState.GONE, finding.c.seen_in <= last_old)
                deleted = 0
                for t, condition in ((finding, is_gone), (run, and_(is_old, run.c.id.not_in(needed)))):
                    page = select(t.c.id).where(condition).limit(PAGE_ROWS)
                    deleted += c.execute(delete(t).where(t.c.id.in_(page))).rowcount
            if not deleted:
                return

    def instance_of(self, finding: int) -> str:
        """Return the instance of a finding, or raise ``UnknownFinding``."""
        t = self._db.t.finding
        with self._db.read() as c:
            instance: str | None = c.execute(select(t.c.instance).where(t.c.id == finding)).scalar_one_or_none()
        if instance is None:
            raise UnknownFinding(f"there is no finding {finding}; see: sexton check findings")
        return instance

    def accept(self, finding: int, by: str, why: str) -> Finding:
        """Mark an open finding as accepted: an operator confirms that it is correct.

        Args:
            finding: its id.
            by: the operator.
            why: the operator's reason.

        Raises:
            UnknownFinding: there is no such finding that is open or accepted.
        """
        check_text("why", why)
        t = self._db.t.finding
        with self._db.write() as c:
            is_open = and_(t.c.id == finding, t.c.state.in_((FindingState.OPEN, FindingState.ACCEPTED)))
            values = {"state": FindingState.ACCEPTED, "accepted_by": f"{by}: {why}"}
            row = c.execute(update(t).where(is_open).values(**values).returning(t)).one_or_none()
            if row is not None:
                recount(self._db, c, row.instance)
        if row is None:
            raise UnknownFinding(f"there is no open finding {finding}; see: sexton check findings")
        return Finding(**row._mapping)

    def findings(
        self,
        instance: str,
        after: int = 0,
        limit: int = 100,
        *,
        confirmed: bool = False,
        of: FindingType | None = None,
        key_prefix: str = "",
    ) -> list[Finding]:
        """Return open findings in the order of their ids.

        Args:
            instance: the instance.
            after: only findings with higher ids.
            limit: at most this many.
            confirmed: only confirmed ones.
            of: only findings of this type; None: of every type.
            key_prefix: only findings whose key begins with it.
        """
        t = self._db.t.finding
        condition = and_(is_open(self._db, instance, of, key_prefix, confirmed=confirmed), t.c.id > after)
        with self._db.read() as c:
            rows = c.execute(select(t).where(condition).order_by(t.c.id).limit(limit))
            return [Finding(**row._mapping) for row in rows]

    def count_repairable(self, instance: str, type_: FindingType, key_prefix: str = "") -> dict[str, int]:
        """Return vault → open confirmed findings of a type whose key begins with a prefix."""
        t = self._db.t.finding
        repairable = is_open(self._db, instance, type_, key_prefix, confirmed=True)
        counts = select(t.c.vault, func.count()).where(repairable).group_by(t.c.vault)
        with self._db.read() as c:
            return {row[0]: row[1] for row in c.execute(counts)}

    def runs(self, instance: str | None = None, limit: int = 20) -> list[Run]:
        """Return the newest runs, of one instance or of all."""
        t = self._db.t.check_run
        condition = true() if instance is None else t.c.instance == instance
        with self._db.read() as c:
            return [_run(row) for row in c.execute(select(t).where(condition).order_by(t.c.id.desc()).limit(limit))]

    def last_ended(self, instance: str) -> Run | None:
        """Return the newest run that has ended; None: there is none."""
        t = self._db.t.check_run
        return self._newest(and_(t.c.instance == instance, t.c.state != RunState.RUNNING))

    def last_whole(self, instance: str) -> Run | None:
        """Return the newest whole run; None: there is none."""
        t = self._db.t.check_run
        return self._newest(and_(t.c.instance == instance, t.c.state == RunState.WHOLE))

    def _newest(self, condition: ColumnElement[bool]) -> Run | None:
        t = self._db.t.check_run
        with self._db.read() as c:
            row = c.execute(select(t).where(condition).order_by(t.c.id.desc()).limit(1)).one_or_none()
        return None if row is None else _run(row)

    def shrunken(self, instance: str) -> Run:
        """Return the last run, if it lacks nothing but that it saw far less than a whole one; else ``BadInput``."""
        return checked_shrunken(instance, self.last_ended(instance))

    def rebase(self, instance: str) -> None:
        """Compare later runs with none so far: a large decrease is correct; ``BadInput`` as ``shrunken``."""
        run, t = self.shrunken(instance), self._db.t.instance
        with self._db.write() as c:
            c.execute(update(t).where(t.c.id == instance).values(check_base=run.id))

    def report(self, run: int) -> CheckReport:
        """Return a run, with the counts of the findings that are open; ``UnknownCheck``."""
        t = self._db.t.check_run
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == run)).one_or_none()
            if row is None:
                raise UnknownCheck(f"there is no check {run}; see: sexton check list")
            counts = open_counts(self._db, c, row.instance)
        confirmed = {type_: confirmed for type_, _, confirmed in counts if confirmed}
        return CheckReport(run=_run(row), found={type_: open_ for type_, open_, _ in counts}, confirmed=confirmed)

    def _seen_in(self, run: Run, types: Collection[FindingType]) -> ColumnElement[bool]:
        t = self._db.t.finding
        return and_(t.c.instance == run.instance, t.c.seen_in == run.id, t.c.type.in_(types))

    def _is_running(self, c: Connection, run: Run) -> bool:
        """Return whether the run has not ended, and prevent its conclusion until this transaction ends."""
        t = self._db.t.check_run
        state = c.execute(select(t.c.state).where(t.c.id == run.id).with_for_update(read=True)).scalar_one()
        return bool(state == RunState.RUNNING)


class CheckSchedule:
    """The instances that have a vault, the one whose last check is oldest first."""

    def __init__(self, db: Database, interval_seconds: int | Live[int], *, enabled: bool = True) -> None:
        self._db, self._interval_seconds, self._enabled = db, Live.of(interval_seconds), enabled

    def due(self) -> tuple[str, ...]:
        """Return the instances whose check should start now, as many as may run beside those that run."""
        if not self._enabled:
            return ()
        run, vault, instance = self._db.t.check_run, self._db.t.vault, self._db.t.instance
        with self._db.read() as c:
            now = self._db.now(c)
            # The cutoff of a run may be later than now: the clock was ahead at that time.
            is_running = and_(run.c.state == RunState.RUNNING, run.c.cutoff.between(now - STALE_MS, now))
            busy = set(c.execute(select(run.c.instance).where(is_running).distinct()).scalars())
            last_cutoff = select(func.max(run.c.cutoff)).where(run.c.instance == instance.c.id).scalar_subquery()
            rows = c.execute(
                select(instance.c.id, last_cutoff.label("last_cutoff"))
                .where(exists().where(vault.c.instance == instance.c.id))
                .order_by(last_cutoff.is_not(None), last_cutoff, instance.c.id)
            ).all()
        ready = []
        for name, last in rows:
            # Later than now: the clock was ahead at that time.
            if name not in busy and (last is None or last > now or last <= now - self._interval_seconds(name) * 1000):
                ready.append(name)
        return tuple(ready[: max(0, AT_ONCE - len(busy))])


def _run(row: Any) -> Run:
    return Run.model_validate({**row._mapping, "missing_inputs": tuple(row.missing_inputs or ())})
