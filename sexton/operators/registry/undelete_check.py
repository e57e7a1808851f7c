"""Which claimed marks would hide again what is about to be undeleted."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, literal, or_, select

from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.database.rows import in_list
from sexton.kernel.errors import SextonError
from sexton.marks.model import Ref
from sexton.operators.holds.store import Hold, HoldStore

KEYS_AT_ONCE = 1_000


class HiddenAgain(SextonError):
    """A claimed mark would delete again what is to be undeleted."""


def refuse_hiding(db: Database, instance: str, vault: str, prefix: str = "", keys: Sequence[str] = ()) -> None:
    """Refuse to undelete what a claimed mark deletes now, or will delete when it looks at its prefix once more.

    A hold keeps the second look from it; what a round has claimed and not gone through yet nothing keeps.

    Args:
        db: the database.
        instance: whose marks.
        vault: where.
        prefix: everything under it is to be undeleted; or
        keys: just these.

    Raises:
        UnknownInstance: no such instance.
        HiddenAgain: there is such a mark; the message says what to do first.
    """
    holds = HoldStore(db).active(instance)
    with db.read() as c:
        if c.execute(select(db.t.instance.c.id).where(db.t.instance.c.id == instance)).one_or_none() is None:
            raise UnknownInstance(instance)
        mark = db.t.mark
        going = and_(mark.c.swept_at.is_(None), mark.c.quarantined_reason.is_(None))
        if found := _covering(db, c, instance, vault, prefix, keys, going):
            raise HiddenAgain(
                f"{_some(found)} of {instance} is claimed and its files are still being deleted: let the round finish "
                f"(see: sexton status), then undelete"
            )
        if any(hold.scope == "instance" for hold in holds):
            return
        kept = tuple(h.prefix for h in holds if h.scope == "prefix" and h.vault == vault and h.prefix)
        if prefix and prefix.startswith(kept):
            return
        open_keys = [key for key in keys if not key.startswith(kept)] if kept else keys
        if not prefix and not open_keys:
            return
        found = _covering(db, c, instance, vault, prefix, open_keys, ~going) - _held(holds)
        if found:
            where = prefix or _common(open_keys)
            hold = f"vault-prefix {vault}/{where} --instance {instance}" if where else f"instance {instance}"
            raise HiddenAgain(
                f"{_some(found)} of {instance} is claimed and will look there once more, and hide again what it finds; "
                f"first: sexton hold {hold} --for 7d --reason 'undelete'; then give the mark up for good: "
                f"sexton quarantine discard {instance} {min(found).kind}/{min(found).id} --reason 'undelete'"
            )


def _covering(
    db: Database,
    c: Connection,
    instance: str,
    vault: str,
    prefix: str,
    keys: Sequence[str],
    standing: ColumnElement[bool],
) -> set[Ref]:
    """Return the claimed marks with a prefix or a stored file that touches what is meant."""
    mark, file = db.t.mark, db.t.mark_file
    claimed = and_(mark.c.instance == instance, mark.c.state == "CLAIMED", standing)
    its = and_(file.c.instance == mark.c.instance, file.c.kind == mark.c.kind, file.c.id == mark.c.id)
    here = or_(mark.c.vault == vault, mark.c.vault.is_(None))
    by_prefix: Any = select(mark.c.kind, mark.c.id, mark.c.prefix).where(claimed, here, mark.c.prefix.is_not(None))
    by_file = select(mark.c.kind, mark.c.id).where(claimed, file.c.vault == vault).join(file, its)
    if prefix:
        inside = func.substr(mark.c.prefix, 1, len(prefix)) == prefix
        around = func.substr(literal(prefix), 1, func.length(mark.c.prefix)) == mark.c.prefix
        found = {Ref(r.kind, r.id) for r in c.execute(by_prefix.where(or_(inside, around)))}
        stored = by_file.where(func.substr(file.c.key, 1, len(prefix)) == prefix).distinct()
        return found | {Ref(*r) for r in c.execute(stored)}
    ordered = sorted(keys)
    found = {Ref(r.kind, r.id) for r in c.execute(by_prefix) if _any_under(ordered, r.prefix)}
    for start in range(0, len(ordered), KEYS_AT_ONCE):
        page = ordered[start : start + KEYS_AT_ONCE]
        found |= {Ref(*r) for r in c.execute(by_file.where(in_list(db, file.c.key, page)).distinct())}
    return found


def _any_under(ordered: Sequence[str], prefix: str) -> bool:
    at = bisect_left(ordered, prefix)
    return at < len(ordered) and ordered[at].startswith(prefix)


def _held(holds: Sequence[Hold]) -> set[Ref]:
    return {Ref(str(h.mark_kind), str(h.mark_id)) for h in holds if h.scope == "mark"}


def _common(keys: Sequence[str]) -> str:
    """Return the longest folder that all keys are in."""
    first, last = min(keys), max(keys)
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[: first.rfind("/", 0, same) + 1] if len(keys) > 1 else first


def _some(found: set[Ref]) -> str:
    first = min(found)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"mark {first.kind} {first.id}{more}"
