"""Repair: confirmed orphans become marks, with retention and undo; what was lost is shown again from object versions.

Nothing is deleted here. A mark waits like any other, its round is a plan under the same limits, and each look comes
once more before: at the run's certificate, at the share, at the record and at the object.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import and_, insert, select, update

from sexton.check.looking import there
from sexton.check.model import Finding, Known, Repaired, Run, RunState, State, Type
from sexton.check.policy import repairable, too_many
from sexton.check.port import Live
from sexton.check.store import CheckStore
from sexton.db.engine import Database
from sexton.db.rows import in_list
from sexton.errors import BadInput
from sexton.guard import deciding
from sexton.marks.policy import covering_prefixes
from sexton.storage.identity import spellings
from sexton.storage.model import Listed
from sexton.storage.port import Vault, Vaults

AT_ONCE = 500
FRESH_MS = 2 * 86_400_000
"""A run older than this says nothing about today."""
KIND = "orphan"
_ID = re.compile(r"[A-Za-z0-9.-]{1,128}")


class Refused(BadInput):
    """A repair is not done, because what it would act on is not certain."""


class Repairs:
    """What an operator may do about findings."""

    def __init__(self, db: Database, runs: CheckStore, live: Live, vaults: Vaults) -> None:
        """``vaults`` must compare rounds with the database: a database behind its vaults repairs nothing."""
        self._db, self._runs, self._live, self._vaults = db, runs, live, vaults

    def orphans(self, instance: str, *, dry_run: bool = False) -> Repaired:
        """Mark the confirmed orphans; with ``dry_run`` only count them.

        Raises:
            Refused: the last run is not whole, or old, or there are too many orphans.
            VaultFault: a vault is not provably ours, or our database is behind it.
        """
        run = self._certain(instance)
        number = self._runs.count_repairable(instance, Type.ORPHAN)
        objects = run.evidence.objects if run.evidence else 0
        if why := too_many(number, objects):
            raise Refused(f"{why}. Look at them first: sexton check findings {instance}; accept those that are right")
        total = Repaired(found=number)
        if dry_run:
            return total
        for page in self._pages(instance, Type.ORPHAN):
            known = self._known(instance, page)
            now = there(self._vaults, instance, _by_vault(page))
            taken = [f for f in page if repairable(f) and not _is_known(f, known) and _is_same(f, now)]
            total = total.plus(Repaired(marked=self._mark(instance, run, taken), kept=len(page) - len(taken)))
        return total

    def lost(self, instance: str, *, dry_run: bool = False) -> Repaired:
        """Show again what was lost, from the versions that its bucket keeps.

        Raises:
            Refused: the last run is not whole, or old.
            VaultFault: a vault is not provably ours, or our database is behind it.
        """
        self._certain(instance)
        total = Repaired(found=self._runs.count_repairable(instance, Type.LOST))
        for page in self._pages(instance, Type.LOST):
            for vault, keys in _by_vault(page).items():
                opened = self._vaults.get(instance, vault)
                total = total.plus(self._show(opened, keys, dry_run=dry_run))
            now = there(self._vaults, instance, _by_vault(page))
            if not dry_run:
                self._repaired([f.id for f in page if (f.vault, f.key) in now])
        return total

    def take_back(self, instance: str, beat: Callable[[], None]) -> int:
        """Take back marks of orphans that are known to somebody by now; return how many."""
        mark, taken, after = self._db.t.mark, 0, ""
        its = and_(mark.c.instance == instance, mark.c.kind == KIND, mark.c.state == "MARKED")
        columns = select(mark.c.id, mark.c.vault, mark.c["keys"])
        while True:
            beat()
            with self._db.read() as c:
                chosen = columns.where(its, mark.c["keys"].is_not(None), mark.c.id > after)
                rows = c.execute(chosen.order_by(mark.c.id).limit(AT_ONCE)).all()
            if not rows:
                return taken
            after = rows[-1].id
            named = self._live.named(instance, [key for _, _, keys in rows for key in keys])
            known = {(k.vault, k.key) for k in named if k.live and not k.prefix}
            ids = [id_ for id_, vault, keys in rows if any((vault, key) in known for key in keys)]
            if ids:
                with deciding(self._db, instance) as c:
                    taken += c.execute(mark.delete().where(its, in_list(self._db, mark.c.id, ids))).rowcount

    def _certain(self, instance: str) -> Run:
        """Return the last run, if it may be acted on."""
        run = self._runs.last(instance)
        again = f"run one: sexton check run {instance}"
        if run is None:
            raise Refused(f"{instance} was never checked; {again}")
        if run.state is not RunState.WHOLE:
            raise Refused(f"the last check of {instance} is not whole ({'; '.join(run.lacks)[:500]}); {again}")
        if self._runs.now() - run.cutoff > FRESH_MS:
            raise Refused(f"the last check of {instance} is older than {FRESH_MS // 86_400_000} days; {again}")
        for its in run.evidence.listings if run.evidence else ():
            self._vaults.confirm(instance, its.vault)
        return run

    def _pages(self, instance: str, type_: Type) -> Iterator[Sequence[Finding]]:
        after = 0
        while page := self._runs.repairable(instance, type_, after, AT_ONCE):
            yield page
            after = page[-1].id

    def _known(self, instance: str, page: Sequence[Finding]) -> Sequence[Known]:
        """Return what the records and the marks say this moment."""
        named = list(self._live.named(instance, [f.key for f in page]))
        wanted = {key for f in page for key in (f.key, *spellings(f.key))}
        mark = self._db.t.mark
        prefixes = sorted({p for key in wanted for p in covering_prefixes(key)})
        with self._db.read() as c:
            covers = select(mark.c.vault, mark.c.prefix).where(
                mark.c.instance == instance, in_list(self._db, mark.c.prefix, prefixes)
            )
            return [*named, *(Known(v, p, True, False) for v, p in c.execute(covers))]

    def _mark(self, instance: str, run: Run, findings: Sequence[Finding]) -> int:
        """Mark them, and call them repaired, in one transaction; what was marked before stays as it is."""
        t, mark = self._db.t.finding, self._db.t.mark
        rows = [
            {
                "instance": instance,
                "kind": KIND,
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
            open_ = and_(t.c.state == State.OPEN, in_list(self._db, t.c.id, [f.id for f in findings]))
            still = set(c.execute(update(t).where(open_).values(state=State.REPAIRED).returning(t.c.id)).scalars())
            chosen = [row for row, f in zip(rows, findings, strict=True) if f.id in still]
            if chosen:
                c.execute(insert(mark), chosen)
            return len(chosen)

    def _repaired(self, findings: Sequence[int]) -> None:
        t = self._db.t.finding
        with self._db.write() as c:
            its = and_(t.c.state == State.OPEN, in_list(self._db, t.c.id, findings))
            c.execute(update(t).where(its).values(state=State.REPAIRED))

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


def _is_known(finding: Finding, known: Sequence[Known]) -> bool:
    """Tell whether anybody knows the object by now, by its key, by what that may mean, or by a prefix."""
    keys = {finding.key, *spellings(finding.key)}
    prefixes = {p for key in keys for p in covering_prefixes(key)}
    return any(k.vault == finding.vault and k.key in (prefixes if k.prefix else keys) for k in known)


def _is_same(finding: Finding, now: dict[tuple[str, str], Listed]) -> bool:
    """Tell whether the object is there, and the one that was found."""
    found = now.get((finding.vault, finding.key))
    return found is not None and found.bytes == finding.size and found.etag == finding.etag
