"""Repair: confirmed orphans become marks, with retention and undo; what was lost is shown again from object versions.

Nothing is deleted here. A mark waits like any other, its round is a plan under the same limits, and each look comes
once more before: at the run's certificate, at the share, at the record and at the object.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlalchemy import Text, and_, cast, insert, update

from sexton.check.model import Finding, FindingState, Repaired, Run, RunState, Type
from sexton.check.object_lookup import there
from sexton.check.policy import FRESH_MS, repairable, too_many
from sexton.check.sources.marks import ORPHAN
from sexton.check.sql.store import CheckStore
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.storage.model import Listed
from sexton.storage.port import Vault, Vaults

AT_ONCE = 500
_ID = re.compile(r"[A-Za-z0-9.-]{1,128}")


class RepairRefused(BadInput):
    """A repair is not done, because what it would act on is not certain."""


class Repairs:
    """What an operator may do about findings."""

    def __init__(self, db: Database, runs: CheckStore, vaults: Vaults) -> None:
        """``vaults`` must compare rounds with the database: a database behind its vaults repairs nothing."""
        self._db, self._runs, self._vaults = db, runs, vaults

    def orphans(self, instance: str, *, dry_run: bool = False) -> Repaired:
        """Mark the confirmed orphans; with ``dry_run`` only count them.

        Raises:
            Refused: the last run is not whole, or old, or there are too many orphans.
            VaultFault: a vault is not provably ours, or our database is behind it.
        """
        run = self._certain(instance)
        counts = self._runs.count_repairable(instance, Type.ORPHAN)
        objects = {its.vault: its.objects for its in run.evidence.listings} if run.evidence else {}
        for vault, number in counts.items():
            if why := too_many(vault, number, objects.get(vault, 0)):
                raise RepairRefused(f"{why}. Look first: sexton check findings {instance}; accept those that are right")
        total = Repaired(found=sum(counts.values()))
        if dry_run:
            return total
        for page in self._pages(instance, Type.ORPHAN):
            now = there(self._vaults, instance, _by_vault(page))
            taken = [f for f in page if repairable(f) and f.proven_in == run.id and _is_same(f, now)]
            total = total.plus(Repaired(marked=self._mark(instance, run, taken), kept=len(page) - len(taken)))
        return total

    def lost(self, instance: str, *, dry_run: bool = False) -> Repaired:
        """Show again what was lost, from the versions that its bucket keeps.

        Raises:
            Refused: the last run is not whole, or old.
            VaultFault: a vault is not provably ours, or our database is behind it.
        """
        self._certain(instance)
        total = Repaired(found=sum(self._runs.count_repairable(instance, Type.LOST).values()))
        for page in self._pages(instance, Type.LOST):
            for vault, keys in _by_vault(page).items():
                opened = self._vaults.get(instance, vault)
                total = total.plus(self._show(opened, keys, dry_run=dry_run))
            now = there(self._vaults, instance, _by_vault(page))
            if not dry_run:
                self._repaired([f.id for f in page if (f.vault, f.key) in now])
        return total

    def _certain(self, instance: str) -> Run:
        """Return the last run, if it may be acted on."""
        run = self._runs.last(instance)
        again = f"run one: sexton check run {instance}"
        if run is None:
            raise RepairRefused(f"{instance} was never checked; {again}")
        if run.state is not RunState.WHOLE:
            raise RepairRefused(f"the last check of {instance} is not whole ({'; '.join(run.lacks)[:500]}); {again}")
        if self._runs.now() - run.cutoff > FRESH_MS:
            raise RepairRefused(f"the last check of {instance} is older than {FRESH_MS // 86_400_000} days; {again}")
        for its in run.evidence.listings if run.evidence else ():
            self._vaults.confirm(instance, its.vault)
        return run

    def _pages(self, instance: str, type_: Type) -> Iterator[Sequence[Finding]]:
        after = 0
        while page := self._runs.repairable(instance, type_, after, AT_ONCE):
            yield page
            after = page[-1].id

    def _mark(self, instance: str, run: Run, findings: Sequence[Finding]) -> int:
        """Mark them, and call them repaired, in one transaction; what was marked before stays as it is."""
        t, mark = self._db.t.finding, self._db.t.mark
        rows = [
            {
                "instance": instance,
                "kind": ORPHAN,
                "id": f"{f.id}.{run.id}",
                "vault": f.vault,
                "keys": [f.key],
                "etags": [f.etag],
                "bytes": f.size or 0,
                "parent_kind": "rowset" if _ID.fullmatch(f.record) else None,
                "parent_id": f.record if _ID.fullmatch(f.record) else None,
            }
            for f in findings
        ]
        if not rows:
            return 0
        with deciding(self._db, instance) as c:
            open_ = and_(t.c.state == FindingState.OPEN, in_list(self._db, t.c.id, [f.id for f in findings]))
            named = cast(t.c.id, Text()) + f".{run.id}"
            done = update(t).where(open_).values(state=FindingState.REPAIRED, mark=named).returning(t.c.id)
            still = set(c.execute(done).scalars())
            chosen = [row for row, f in zip(rows, findings, strict=True) if f.id in still]
            if chosen:
                c.execute(insert(mark), chosen)
            return len(chosen)

    def _repaired(self, findings: Sequence[int]) -> None:
        t = self._db.t.finding
        with self._db.write() as c:
            its = and_(t.c.state == FindingState.OPEN, in_list(self._db, t.c.id, findings))
            c.execute(update(t).where(its).values(state=FindingState.REPAIRED))

    def _show(self, vault: Vault, keys: Sequence[str], *, dry_run: bool) -> Repaired:
        total = Repaired()
        for page in vault.undelete(keys=keys, dry_run=dry_run):
            total = total.plus(Repaired(shown=page.shown, kept=page.nothing_left + page.failed))
        return total


def _by_vault(page: Sequence[Finding]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = defaultdict(list)
    for finding in page:
        keys[finding.vault].append(finding.key)
    return keys


def _is_same(finding: Finding, now: dict[tuple[str, str], Listed]) -> bool:
    """Tell whether the object is there, and the one that was found."""
    found = now.get((finding.vault, finding.key))
    return found is not None and found.bytes == finding.size and found.etag == finding.etag
