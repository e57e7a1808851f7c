"""Tell which marks are of orphans, and whether so many of them wait that an operator must approve their deletion."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import ColumnElement, Connection, Table, and_, func, select

from sexton.database.engine import Database
from sexton.marks.sql.rows import waits

ORPHAN = "orphan"
"""The kind of the marks that a repair makes of objects that no record names."""
MAX_ORPHAN_SHARE = 0.01
"""The largest share of a vault's objects that is deleted without approval: more indicates a fault of the check or of
the metadata."""


def found_by_check(mark: Table) -> ColumnElement[bool]:
    """Return the condition that a check made the mark of an orphan: such a mark names the exact object by its ETag."""
    return and_(mark.c.kind == ORPHAN, mark.c.etags.is_not(None))


def unapproved(db: Database, c: Connection, instance: str, more: Mapping[str, int] = MappingProxyType({})) -> str:
    """Return why no round deletes the waiting marks of orphans without approval; empty: rounds do.

    Their share is that of the objects which the last whole check listed. All waiting marks count, due or not: several
    small repairs are one large one. ``more``: vault → orphans that are about to be marked.
    """
    mark, run = db.t.mark, db.t.check_run
    waiting = and_(mark.c.instance == instance, waits(mark), found_by_check(mark))
    by_vault = select(mark.c.vault, func.count()).where(waiting).group_by(mark.c.vault)
    orphans = Counter({vault: int(number) for vault, number in c.execute(by_vault)}) + Counter(more)
    if not orphans:
        return ""
    whole = select(run.c.evidence).where(run.c.instance == instance, run.c.state == "WHOLE")
    evidence = c.execute(whole.order_by(run.c.id.desc()).limit(1)).scalar_one_or_none() or {}
    objects = {listing["vault"]: int(listing["objects"]) for listing in evidence.get("listings", ())}
    reasons = (too_many(vault, number, objects.get(vault, 0)) for vault, number in sorted(orphans.items()))
    return "; ".join(filter(None, reasons))


def too_many(vault: str, orphans: int, objects: int) -> str:
    """Return why this number of orphans of a vault needs an operator's approval; empty: it does not. Pure."""
    if orphans <= objects * MAX_ORPHAN_SHARE:
        return ""
    share = f"{100 * orphans / objects:.1f} %" if objects else "all"
    return (
        f"{orphans:,} orphans are {share} of the {objects:,} objects of vault {vault}; "
        f"without approval at most {100 * MAX_ORPHAN_SHARE:g} % are deleted"
    )
