"""The story of one object or mark: live, marked, due, set aside, claimed, gone."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, Text, and_, func, literal, or_, select
from sqlalchemy.dialects.postgresql import JSONB

from sexton.db.engine import Database
from sexton.marks.policy import covering_prefixes
from sexton.message import Message
from sexton.owner.sql import SqlOwner
from sexton.recycle import policy as rules
from sexton.recycle.model import Policy
from sexton.registry.store import Registry


class Story(Message):
    """What is known of one mark (or of one live object), in order of time; instants in ms since 1970, 0 for none."""

    instance: str
    kind: str = ""
    id: str = ""
    events: tuple[tuple[int, str], ...]


def story(db: Database, what: str, instance: str | None, policy: Policy) -> list[Story]:
    """Return every story about a key (relative to its vault or with the vault's prefix) or a mark's id."""
    names = {what}
    for vault in Registry(db).vaults(instance):
        for front in (vault.prefix, f"{vault.location}/{vault.prefix}", f"s3://{vault.location}/{vault.prefix}"):
            if front and what.startswith(front):
                names.add(what.removeprefix(front).lstrip("/"))
    told = [
        Story(instance=i or instance or "(any)", events=((0, f"live: {kind} {id_}, {key} in vault {vault}"),))
        for i, kind, id_, vault, key in SqlOwner(db).live_rows(sorted(names))
    ]
    with db.read() as c:
        now = db.now(c)
        marked = c.execute(_about(db, db.t.mark, names, instance)).all()
        waits = {i: _waits(db, c, i, live=bool(told)) for i in {row.instance for row in marked}}
        told += [_marked(row, policy, now, waits[row.instance]) for row in marked]
        told += [_gone(row) for row in c.execute(_about(db, db.t.mark_history, names, instance))]
    return told


def _about(db: Database, table: Table, names: set[str], instance: str | None) -> Select[Any]:
    """Select marks or history rows with that id, that key, or a prefix that covers it."""
    keys = table.c["keys"]
    tests: list[ColumnElement[bool]] = [table.c.id.in_(names)]
    for name in sorted(names):
        tests.append(table.c.prefix.in_(covering_prefixes(name)))
        if db.dialect == "postgresql":
            tests.append(keys.cast(JSONB).contains([name]))
        else:
            each = func.json_each(keys).table_valued("value")
            tests.append(and_(keys.is_not(None), select(1).where(each.c.value == literal(name, Text())).exists()))
    found = select(table).where(or_(*tests)).limit(100)
    return found if instance is None else found.where(table.c.instance == instance)


def _waits(db: Database, c: Connection, instance: str, *, live: bool) -> str:
    """Return what keeps a due mark of an instance from going, as far as SQL alone can tell."""
    if live:
        return "kept: live (see above)"
    t = db.t
    if c.execute(select(t.instance.c.mode).where(t.instance.c.id == instance)).scalar_one_or_none() == "observe":
        return f"waits: {instance} only observes; run: sexton enable {instance}"
    ended = select(t.round.c.id, t.round.c.report).where(t.round.c.instance == instance, t.round.c.report.is_not(None))
    last = c.execute(ended.order_by(t.round.c.id.desc()).limit(1)).one_or_none()
    if last is None:
        return f"waits for a round: sexton plan {instance}"
    held = ", ".join(f"{n} by {who}" for who, n in sorted(last.report.get("held", {}).items()))
    return f"waits for the next round; round {last.id} kept {held or 'nothing'}"


def _marked(row: Any, policy: Policy, now: int, waits: str) -> Story:
    where = f"prefix {row.prefix}" if row.prefix else f"{len(row._mapping['keys'] or ())} keys"
    events = [
        (row.marked_at, f"marked {row.kind}: {where} in vault {row.vault}, {row.bytes} bytes by its owner's word")
    ]
    if row.expires_at:
        events.append((row.expires_at, f"its transaction {row.owner_txn} expires"))
    retention = policy.retention_seconds.get(row.kind)
    cutoff = rules.cutoff(row.kind, policy, now)
    if row.state == "MARKED" and (retention is None or cutoff is None):
        events.append((0, "kept: no retention is set for this kind"))
    elif row.state == "MARKED" and retention is not None and cutoff is not None:
        due = row.ages_from + retention * 1000
        if row.ages_from <= cutoff:
            events += [(due, "due"), *([(0, waits)] if row.quarantined_reason is None else [])]
        else:
            events.append((due, "falls due; until then undrop brings it back"))
    if row.claimed_at:
        events.append((row.claimed_at, f"claimed in batch {row.batch} (lease epoch {row.lease_epoch}); irrevocable"))
    if row.swept_at:
        events.append((row.swept_at, f"its {row.objects_gone} files are gone, {row.bytes_gone} bytes"))
        events.append((row.next_try_at or 0, "is listed once more, then the record goes"))
    if row.last_error:
        events.append((0, f"last error ({row.failures} failures): {row.last_error}"))
    if row.quarantined_reason:
        events.append((0, f"set aside: {row.quarantined_reason}"))
    return Story(instance=row.instance, kind=row.kind, id=row.id, events=tuple(events))


def _gone(row: Any) -> Story:
    events = (
        (row.marked_at, f"marked {row.kind} in vault {row.vault}"),
        (row.claimed_at, f"claimed in batch {row.batch}, round {row.round}"),
        (row.gone_at, f"gone: {row.objects} objects, {row.bytes} bytes"),
    )
    return Story(instance=row.instance, kind=row.kind, id=row.id, events=events)
