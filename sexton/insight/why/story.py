"""The story of one object or mark: live, marked, due, kept by whom, set aside, claimed, gone; by SQL and the audit."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, Text, and_, false, func, literal, or_, select
from sqlalchemy.dialects.postgresql import JSONB

from sexton.database.engine import Database
from sexton.insight.views import NOW, Event, Story
from sexton.insight.why import audit, catalog
from sexton.insight.why.context import Rules
from sexton.insight.why.kept import holds, kept, waiting
from sexton.marks.model import Reason, Ref
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.rows import refs_in
from sexton.operators.registry.store import Registry
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.audit.store import Claim

TOLD_ROWS = 100
TOLD_FILES = 10
"""Files of one claimed mark that are told one by one; a key that is asked for is always told."""
LEVELS = 20
"""Parents told; a chain may be a circle."""


def story(db: Database, what: str, instance: str | None, given: Rules) -> list[Story]:
    """Return every story about a key (relative to its vault or with the vault's prefix) or a mark's id."""
    names = names_of(db, what, instance)
    told = [
        Story(
            instance=i or instance or "(any)",
            events=(Event(event="live", text=f"live: {kind} {id_}, {key} in vault {vault}"),),
        )
        for i, kind, id_, vault, key in SqlOwner(db).live_rows(sorted(names))
    ]
    with db.read() as c:
        now = db.now(c)
        marked = c.execute(_about(db, db.t.mark, names, instance)).all()
        gone = c.execute(_about(db, db.t.mark_history, names, instance)).all()
    told += [
        Story(instance=r.instance, kind=r.kind, id=r.id, events=_in_order(_marked(db, r, names, given, now), now))
        for r in marked
    ]
    told += [
        Story(instance=r.instance, kind=r.kind, id=r.id, events=_in_order(_gone(db, r, names, given), now))
        for r in gone
    ]
    return told or [*catalog.live(db, names, instance, given), *catalog.named(db, names, instance)]


def names_of(db: Database, what: str, instance: str | None) -> set[str]:
    """Return a name, and what it is relative to each vault whose place it begins with."""
    names = {what}
    for vault in Registry(db).vaults(instance):
        for front in (vault.prefix, f"{vault.location}/{vault.prefix}", f"s3://{vault.location}/{vault.prefix}"):
            if front and what.startswith(front):
                names.add(what.removeprefix(front).lstrip("/"))
    return names


def _in_order(events: Iterable[Event], now: int) -> tuple[Event, ...]:
    """Return what was, what keeps it now (whatever it is since), what will be."""
    return tuple(sorted(events, key=lambda e: now if e.event in NOW else e.at or now))


def _about(db: Database, table: Table, names: set[str], instance: str | None) -> Select[Any]:
    """Select marks or history rows with that id, that key, a prefix that covers it, or such a file under way."""
    keys, file = table.c["keys"], db.t.mark_file
    tests: list[ColumnElement[bool]] = [table.c.id.in_(names), _of_layout(db, table, names)]
    for name in sorted(names):
        tests.append(table.c.prefix.in_(covering_prefixes(name)))
        if db.dialect == "postgresql":
            tests.append(keys.cast(JSONB).contains([name]))
        else:
            each = func.json_each(keys).table_valued("value")
            tests.append(and_(keys.is_not(None), select(1).where(each.c.value == literal(name, Text())).exists()))
    if table is db.t.mark:
        # Looked up on its own: within this statement it would be asked of each mark there is.
        under_way = select(file.c.kind, file.c.id).distinct().where(file.c.key.in_(names)).limit(TOLD_ROWS)
        with db.read() as c:
            tests.append(refs_in(db, table, [Ref(*row) for row in c.execute(under_way)]))
    found = select(table).where(or_(*tests)).limit(TOLD_ROWS)
    return found if instance is None else found.where(table.c.instance == instance)


def _of_layout(db: Database, table: Table, names: set[str]) -> ColumnElement[bool]:
    """Return the condition that a mark of the catalog is one that a key's own text leads to."""
    led = catalog.marks_of(db, names).items()
    return or_(false(), *(and_(table.c.instance == instance, refs_in(db, table, refs)) for instance, refs in led))


def _marked(db: Database, row: Any, names: set[str], given: Rules, now: int) -> Iterator[Event]:
    keys: Sequence[str] = row._mapping["keys"] or ()
    where = f"prefix {row.prefix}" if row.prefix else f"key {keys[0]}" if len(keys) == 1 else f"{len(keys)} keys"
    place = f"{where} in vault {row.vault}" if row.vault else "its owner names its files"
    by = f" by transaction {row.owner_txn}" if row.owner_txn else ""
    said = f"marked {row.kind}{by}: {place}, {row.bytes} bytes by its owner's word"
    yield Event(at=row.marked_at, event="marked", text=said)
    if row.parent_id is not None:
        yield Event(at=row.marked_at, event="below", text=f"below {', below '.join(_parents(db, row))}")
    if row.expires_at:
        yield Event(at=row.expires_at, event="expires", text=f"its transaction {row.owner_txn} expires")
    if row.state == "FENCED":
        yield Event(event="fenced", text="fenced: its owner commits it no more; the next round claims it, if it may go")
    if row.state != "CLAIMED":
        yield from waiting(db, row, given)
    if row.claimed_at:
        with_ = ", with the mark above it, whose files include its own" if row.absorbed else ""
        batch = row.claimed_in or row.batch
        by = f"claimed in batch {batch}{_planned(db, batch)}{with_}; irrevocable"
        yield Event(at=row.claimed_at, event="claimed", text=by)
        yield from _files(db, row, names)
        yield from _audited(row, batch, row.claimed_at, now, names, given)
        yield from kept(db, row, given)
    if row.swept_at:
        went = f"its {row.objects_gone} files are gone, {row.bytes_gone} bytes"
        yield Event(at=row.swept_at, event="swept", text=went)
        last = "is listed once more, then the record goes"
        yield Event(at=row.next_try_at or 0, event="last_look", text=last)
        yield from holds(db, row, given)
    if row.last_error:
        yield Event(event="last_error", text=f"last error ({row.failures} failures): {row.last_error}")
    if row.quarantined_reason:
        out = f"sexton quarantine retry {row.instance} {row.kind}/{row.id}"
        again = row.next_try_at if row.quarantined_reason == Reason.DELETE_FAILED else None
        yield Event(event="set_aside", text=f"set aside: {row.quarantined_reason}; to try it again: {out}")
        if again:
            yield Event(at=again, event="tried_again", text="tried again by the first round after this")


def _parents(db: Database, row: Any) -> list[str]:
    """Return what is above a mark, the nearest first, as far up as marks and history know it."""
    told, at = [f"{row.parent_kind} {row.parent_id}"], Ref(row.parent_kind, row.parent_id)
    with db.read() as c:
        for _ in range(LEVELS):
            for table in (db.t.mark, db.t.mark_history):
                its = and_(table.c.instance == row.instance, table.c.kind == at.kind, table.c.id == at.id)
                above = c.execute(select(table.c.parent_kind, table.c.parent_id).where(its)).one_or_none()
                if above is not None and above.parent_id is not None:
                    break
            else:
                return told
            at = Ref(above.parent_kind, above.parent_id)
            told.append(f"{at.kind} {at.id}")
    return told


def _planned(db: Database, batch: int) -> str:
    """Return in which round a batch was opened and by which plan, as far as SQL knows."""
    b, r, p = db.t.batch, db.t.round, db.t.plan
    joined = b.join(r, r.c.id == b.c.round).outerjoin(p, p.c.id == r.c.plan)
    wanted = select(b.c.round, r.c.plan, p.c.approved_by).select_from(joined).where(b.c.id == batch)
    with db.read() as c:
        row = c.execute(wanted).one_or_none()
    if row is None:
        return ""
    by = f" applied by {row.approved_by}" if row.approved_by else ""
    return f", round {row.round}" + (f", plan {row.plan}{by}" if row.plan is not None else "")


def _files(db: Database, row: Any, names: set[str]) -> Iterator[Event]:
    """Yield what became so far of the files that are under way: those asked for, or a few and how many there are."""
    file = db.t.mark_file
    its = and_(file.c.instance == row.instance, file.c.kind == row.kind, file.c.id == row.id)
    with db.read() as c:
        found = c.execute(select(file).where(its, file.c.key.in_(names)).order_by(file.c.seq)).all()
        if not found:
            found = c.execute(select(file).where(its).order_by(file.c.seq).limit(TOLD_FILES)).all()
            total = c.execute(select(func.count()).where(its)).scalar_one()
            if total > len(found):
                yield Event(event="files", text=f"{total:,} files under way, among them:")
    for f in found:
        why = f": {f.reason}" if f.reason else ""
        text = f"file {f.key} in vault {f.vault}: {f.outcome or 'not tried yet'}{why}"
        yield Event(event=f"file_{f.outcome or 'untried'}", text=text)


def _gone(db: Database, row: Any, names: set[str], given: Rules) -> Iterator[Event]:
    vault = f" in vault {row.vault}" if row.vault else ""
    yield Event(at=row.marked_at, event="marked", text=f"marked {row.kind}{vault}")
    if row.batch or row.discarded is None:
        yield Event(at=row.claimed_at, event="claimed", text=f"claimed in batch {row.batch}{_planned(db, row.batch)}")
        yield from _audited(row, row.batch, row.claimed_at, row.gone_at, names, given)
    if row.discarded is not None:
        text = f"discarded: {row.discarded}, its files were left ({row.objects} objects had gone before)"
        yield Event(at=row.gone_at, event="discarded", text=text)
    else:
        text = f"gone: {row.objects} objects, {row.bytes} bytes, finished in round {row.round}"
        yield Event(at=row.gone_at, event="gone", text=text)


def _audited(row: Any, batch: int, claimed_at: int, until: int, names: set[str], given: Rules) -> Iterator[Event]:
    kinds = frozenset(filter(None, (row.kind, row.parent_kind)))
    claim = Claim(row.instance, kinds, batch, claimed_at, until)
    return audit.events(given.audit, claim, names)
