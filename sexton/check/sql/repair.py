"""Repair findings: confirmed orphans become marks, with retention and undo; lost objects are restored from versions.

Nothing is deleted here. The marks wait like any other, and the round that deletes them is a plan under the same limits;
above a share of a vault's objects that plan waits for an operator's approval.
Each condition is verified once more before a repair: the run, its proof and the object.

Keep or remove the marks that a repair made of orphans: a mark lives only as long as checks find its orphan again.

A record may write the name of an object in any form; only a check compares objects with all records. So a mark is
claimed only if a whole check, begun after the mark was made, has found its orphan again within the last two days. A
whole check that does not find the orphan removes its mark.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, and_, cast, insert, literal_column, select, update

from sexton.check.model import Finding, FindingState, FindingType, RepairResult, Run, RunState
from sexton.check.object_lookup import existing, keys_by_vault
from sexton.check.policy import FRESH_MS, repairable
from sexton.check.sql.findings import recount
from sexton.check.sql.live_side import QUARANTINED, WAITING, is_in
from sexton.check.sql.store import CheckStore
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import beyond, in_list
from sexton.kernel.errors import BadInput
from sexton.marks.live import names_prefix
from sexton.marks.sql.orphans import ORPHAN, found_by_check, unapproved
from sexton.storage.model import ListedObject
from sexton.storage.policy import MAX_KEY_BYTES, is_rewritten
from sexton.storage.port import Vaults

PAGE_FINDINGS = 500
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RepairRefused(BadInput):
    """The repair was refused, because the findings that it would act on are not certain."""


class Repairs:
    """The repairs that an operator may start."""

    def __init__(self, db: Database, runs: CheckStore, vaults: Vaults) -> None:
        """``vaults`` must compare rounds with the database: a database behind its vaults repairs nothing."""
        self._db, self._runs, self._vaults = db, runs, vaults

    def orphans(
        self, instance: str, *, key_prefix: str = "", limit: int | None = None, dry_run: bool = False
    ) -> RepairResult:
        """Mark confirmed orphans; with ``dry_run`` only count them.

        Above a share of a vault's objects no round deletes the marks without approval (``awaits``).

        Args:
            instance: the instance.
            key_prefix: only orphans whose key begins with it.
            limit: at most so many, the oldest findings first; None: all.
            dry_run: only count them.

        Raises:
            RepairRefused: the last run is not whole, or too old.
            VaultFault: the identity of a vault cannot be verified, or this database is older than its marker.
        """
        run = self._trusted_run(instance)
        orphans = sum(self._runs.count_repairable(instance, FindingType.ORPHAN, key_prefix).values())
        total = RepairResult(found=orphans if limit is None else min(orphans, limit))
        if dry_run:
            return total
        for page in self._pages(instance, FindingType.ORPHAN, key_prefix, limit):
            objects = existing(self._vaults, instance, keys_by_vault(page))
            certain = [f for f in page if repairable(f) and f.proven_in == run.id and _is_same(f, objects)]
            certain = [f for f in certain if len(f.key.encode()) <= MAX_KEY_BYTES]  # others only in a directory
            marked = self._mark(instance, run, certain)
            total = total.plus(RepairResult(marked=marked, kept=len(page) - len(certain)))
        return total

    def awaits(self, instance: str, *, key_prefix: str = "", limit: int | None = None) -> str:
        """Return why no round deletes orphans without approval once these are marked; empty: rounds do."""
        counts = self._runs.count_repairable(instance, FindingType.ORPHAN, key_prefix)
        more = {vault: number if limit is None else min(number, limit) for vault, number in counts.items()}
        with self._db.read() as c:
            return unapproved(self._db, c, instance, more)

    def lost(self, instance: str, *, dry_run: bool = False) -> RepairResult:
        """Restore lost objects from the versions that their bucket keeps; with ``dry_run`` only count them.

        Raises:
            RepairRefused: the last run is not whole, or too old.
            VaultFault: the identity of a vault cannot be verified, or this database is older than its marker.
        """
        self._trusted_run(instance)
        t = self._db.t.finding
        total = RepairResult(found=sum(self._runs.count_repairable(instance, FindingType.LOST).values()))
        for findings in self._pages(instance, FindingType.LOST):
            # It is unknown which objects were below a prefix.
            page = [f for f in findings if not names_prefix(f.key, f.expected)]
            total = total.plus(RepairResult(kept=len(findings) - len(page)))
            for vault, keys in keys_by_vault(page).items():
                for shown in self._vaults.get(instance, vault).undelete(keys=keys, dry_run=dry_run):
                    total = total.plus(RepairResult(shown=shown.shown, kept=shown.nothing_left + shown.failed))
            objects = existing(self._vaults, instance, keys_by_vault(page))
            if not dry_run:
                restored = in_list(t.c.id, [f.id for f in page if (f.vault, f.key) in objects])
                with self._db.write() as c:
                    is_open = and_(t.c.state == FindingState.OPEN, restored)
                    c.execute(update(t).where(is_open).values(state=FindingState.REPAIRED))
                    recount(self._db, c, instance)
        return total

    def _trusted_run(self, instance: str) -> Run:
        """Return the last run if a repair may act on it, and verify its vaults."""
        run = self._runs.last_ended(instance)
        remedy = f"run one: sexton check run {instance}"
        if run is None:
            raise RepairRefused(f"{instance} was never checked; {remedy}")
        if run.state is not RunState.WHOLE:
            raise RepairRefused(
                f"the last check of {instance} is not whole ({'; '.join(run.missing_inputs)[:500]}); {remedy}"
            )
        if self._runs.now() - run.cutoff > FRESH_MS:
            raise RepairRefused(f"the last check of {instance} is older than {FRESH_MS // 86_400_000} days; {remedy}")
        for listing in run.evidence.listings if run.evidence else ():
            self._vaults.confirm(instance, listing.vault)
        return run

    def _pages(
        self, instance: str, type_: FindingType, key_prefix: str = "", limit: int | None = None
    ) -> Iterator[Sequence[Finding]]:
        after, left = 0, 2**63 if limit is None else limit
        while page := self._runs.findings(
            instance, after, min(PAGE_FINDINGS, left), confirmed=True, of=type_, key_prefix=key_prefix
        ):
            yield page
            after, left = page[-1].id, left - len(page)

    def _mark(self, instance: str, run: Run, findings: Sequence[Finding]) -> int:
        """Mark orphans and set their findings to REPAIRED, in one transaction; return how many.

        Findings that are no longer open are skipped.
        """
        if not findings:
            return 0
        t, mark = self._db.t.finding, self._db.t.mark
        with deciding(self._db, instance) as c:
            is_open = and_(t.c.state == FindingState.OPEN, in_list(t.c.id, [f.id for f in findings]))
            mark_id = cast(t.c.id, Text()) + f".{run.id}"
            repair = update(t).where(is_open).values(state=FindingState.REPAIRED, mark=mark_id).returning(t.c.id)
            repaired_ids = set(c.execute(repair).scalars())
            rows: list[dict[str, Any]] = []
            for finding in (f for f in findings if f.id in repaired_ids):
                # The parent is the rowset that the key names, so that a hold on it applies.
                rowset = finding.record if _ID.fullmatch(finding.record) else None
                rows.append(
                    {
                        "instance": run.instance,
                        "kind": ORPHAN,
                        "id": f"{finding.id}.{run.id}",
                        "vault": finding.vault,
                        "keys": [finding.key],
                        "etags": [finding.etag],
                        "written": [finding.written],
                        "bytes": finding.size or 0,
                        "parent_kind": None if rowset is None else "rowset",
                        "parent_id": rowset,
                    }
                )
            if rows:
                c.execute(insert(mark), rows)
                recount(self._db, c, instance)
            return len(rows)


def _is_same(finding: Finding, objects: Mapping[tuple[str, str], ListedObject]) -> bool:
    """Return whether the object exists and is the one that was found."""
    stored = objects.get((finding.vault, finding.key))
    if stored is None or is_rewritten(stored.written, finding.written):
        return False
    return stored.bytes == finding.size and stored.etag == finding.etag


PAGE_MARKS = 1_000
NO_MARK: ColumnElement[str] = literal_column("''")
"""Text instead of a parameter: so the planner sees that the partial index of findings with a mark applies."""


class Orphans:
    """The marks of kind ``orphan`` that a repair made from findings of a check."""

    def __init__(self, db: Database) -> None:
        self._db, self._runs = db, CheckStore(db)

    def remove_refuted_marks(self, run: Run) -> int:
        """Remove the marks of orphans that a whole run did not find again, as a record names them now; return how many.

        Marks made after the run began are left. Each page has a transaction of its own, under the guard; meanwhile
        no claim takes a mark that is refuted (``unproven``).
        """
        mark, removed = self._db.t.mark, 0
        position = (mark.c.retention_starts_at, mark.c.id)
        for source in (WAITING, QUARANTINED):
            last: tuple[int, str] = (0, "")  # when the retention of a mark starts (ms since 1970), and its id
            while True:
                is_next = and_(is_in(mark, run.instance, source), self._is_earlier(run), beyond(position, last))
                next_marks = select(*position).where(is_next).order_by(*position).limit(PAGE_MARKS)
                with deciding(self._db, run.instance) as c:
                    page = [(row[0], row[1]) for row in c.execute(next_marks)]
                    if not page:
                        break
                    ids = [mark_id for _, mark_id in page]
                    refuted = set(ids) - self._found_in(c, run, ids)
                    is_refuted = and_(self._is_earlier(run), self._listed(run.instance, refuted))
                    removed += c.execute(mark.delete().where(is_refuted)).rowcount
                    last = page[-1]
        return removed

    def _is_earlier(self, run: Run) -> ColumnElement[bool]:
        mark = self._db.t.mark
        return and_(
            mark.c.kind == ORPHAN, mark.c.state == "MARKED", mark.c.marked_at <= run.cutoff, found_by_check(mark)
        )

    def unproven(self, instance: str, ids: Collection[str]) -> frozenset[str]:
        """Return which of these orphan marks no recent whole run has found again: they must not be claimed."""
        run, mark = self._runs.last_whole(instance), self._db.t.mark
        if run is None or self._runs.now() - run.cutoff > FRESH_MS:
            return frozenset(ids)
        with self._db.read() as c:
            earlier = select(mark.c.id).where(self._listed(instance, ids), mark.c.marked_at < run.cutoff)
            return frozenset(ids) - self._found_in(c, run, c.execute(earlier).scalars().all())

    def _listed(self, instance: str, ids: Collection[str]) -> ColumnElement[bool]:
        mark = self._db.t.mark
        return and_(mark.c.instance == instance, mark.c.kind == ORPHAN, in_list(mark.c.id, ids))

    def _found_in(self, c: Connection, run: Run, marks: Collection[str]) -> set[str]:
        """Return those of these marks whose orphan a whole run found again."""
        t = self._db.t.finding
        has_mark = and_(t.c.instance == run.instance, t.c.mark != NO_MARK, in_list(t.c.mark, marks))
        is_found = and_(t.c.proven_in == run.id, t.c.state == FindingState.REPAIRED)
        return set(c.execute(select(t.c.mark).where(has_mark, is_found)).scalars())
