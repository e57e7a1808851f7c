"""Repair findings: confirmed orphans become marks, with retention and undo; lost objects are restored from versions.

Nothing is deleted here. The marks wait like any other, and the round that deletes them is a plan under the same limits;
above a share of a vault's objects that plan waits for an operator's approval.
Each condition is verified once more before a repair: the run, its proof and the object.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Text, and_, cast, insert, update

from sexton.check.model import Finding, FindingState, FindingType, RepairResult, Run, RunState
from sexton.check.object_lookup import existing, keys_by_vault
from sexton.check.policy import FRESH_MS, repairable
from sexton.check.sql.store import CheckStore
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.marks.live import names_prefix
from sexton.marks.sql.orphans import ORPHAN, unapproved
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
            rows = [_mark_row(run, finding) for finding in findings if finding.id in repaired_ids]
            if rows:
                c.execute(insert(mark), rows)
            return len(rows)


def _mark_row(run: Run, finding: Finding) -> dict[str, Any]:
    """Return the mark of an orphan. Its parent is the rowset that its key names, so that a hold on it applies."""
    rowset = finding.record if _ID.fullmatch(finding.record) else None
    return {
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


def _is_same(finding: Finding, objects: Mapping[tuple[str, str], ListedObject]) -> bool:
    """Return whether the object exists and is the one that was found."""
    stored = objects.get((finding.vault, finding.key))
    if stored is None or is_rewritten(stored.written, finding.written):
        return False
    return stored.bytes == finding.size and stored.etag == finding.etag
