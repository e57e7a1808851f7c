"""The story of one object or mark: live, marked, due, kept by whom, set aside, claimed, gone."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Table, Text, and_, func, literal, or_, select
from sqlalchemy.dialects.postgresql import JSONB

from sexton.control.model import Kind
from sexton.control.policy import vault_allowed, vault_whitelist
from sexton.control.store import ControlStore
from sexton.db.engine import Database
from sexton.holds import Hold, HoldStore
from sexton.marks.holders import ancestors
from sexton.marks.model import DueMark, Reason, Ref
from sexton.marks.policy import covering_prefixes
from sexton.message import Message
from sexton.owner.port import OwnerSilent
from sexton.owner.sql import SqlOwner
from sexton.recycle import policy as rules
from sexton.recycle.counters import NORMAL
from sexton.recycle.model import Policy
from sexton.recycle.reports import Reports
from sexton.recycle.turns import TurnStore
from sexton.registry.store import Registry
from sexton.storage.port import NOT_LISTED


class Event(Message):
    """One thing that is or was; ``at`` in ms since 1970, 0 for what holds now. ``event`` is its name for programs."""

    at: int = 0
    event: str
    text: str


class Story(Message):
    """What is known of one mark (or of one live object), in order of time."""

    instance: str
    kind: str = ""
    id: str = ""
    events: tuple[Event, ...]


NOW = frozenset({"hold"} | {f"halted_{kind}" for kind in Kind})
"""Events that hold now; their ``at`` says since when."""


class Rules(NamedTuple):
    """By what it is judged whether a mark may go now."""

    policy: Policy
    controls: ControlStore
    turns: TurnStore


def story(db: Database, what: str, instance: str | None, given: Rules) -> list[Story]:
    """Return every story about a key (relative to its vault or with the vault's prefix) or a mark's id."""
    names = {what}
    for vault in Registry(db).vaults(instance):
        for front in (vault.prefix, f"{vault.location}/{vault.prefix}", f"s3://{vault.location}/{vault.prefix}"):
            if front and what.startswith(front):
                names.add(what.removeprefix(front).lstrip("/"))
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
        Story(instance=row.instance, kind=row.kind, id=row.id, events=_in_order(_marked(db, row, given), now))
        for row in marked
    ]
    return told + [_gone(row) for row in gone]


def _in_order(events: Iterable[Event], now: int) -> tuple[Event, ...]:
    """Return what was, what keeps it now (whatever it is since), what will be."""
    return tuple(sorted(events, key=lambda e: now if e.event in NOW else e.at or now))


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


def _marked(db: Database, row: Any, given: Rules) -> Iterator[Event]:
    keys: Sequence[str] = row._mapping["keys"] or ()
    where = f"prefix {row.prefix}" if row.prefix else f"key {keys[0]}" if len(keys) == 1 else f"{len(keys)} keys"
    said = f"marked {row.kind}: {where} in vault {row.vault}, {row.bytes} bytes by its owner's word"
    yield Event(at=row.marked_at, event="marked", text=said)
    if row.expires_at:
        yield Event(at=row.expires_at, event="expires", text=f"its transaction {row.owner_txn} expires")
    if row.state == "MARKED":
        yield from _waiting(db, row, given)
    if row.claimed_at:
        by = f"claimed in batch {row.batch} (lease epoch {row.lease_epoch}); irrevocable"
        yield Event(at=row.claimed_at, event="claimed", text=by)
        yield from _kept_now(db, row, given)
    if row.swept_at:
        went = f"its {row.objects_gone} files are gone, {row.bytes_gone} bytes"
        yield Event(at=row.swept_at, event="swept", text=went)
        last = "is listed once more, then the record goes"
        yield Event(at=row.next_try_at or 0, event="last_look", text=last)
        yield from _holds(db, row)
    if row.last_error:
        yield Event(event="last_error", text=f"last error ({row.failures} failures): {row.last_error}")
    if row.quarantined_reason:
        out = f"sexton quarantine retry {row.instance} {row.kind}/{row.id}"
        again = row.next_try_at if row.quarantined_reason == Reason.DELETE_FAILED else None
        yield Event(event="set_aside", text=f"set aside: {row.quarantined_reason}; to try it again: {out}")
        if again:
            yield Event(at=again, event="tried_again", text="tried again by the first round after this")


def _waiting(db: Database, row: Any, given: Rules) -> Iterator[Event]:
    """Yield when a mark falls due, everything that keeps it now, and when the next round looks at it."""
    yield from _holds(db, row)
    with db.read() as c:
        now = db.now(c)
        halt = given.controls.halt(c, row.instance)
    retention, cutoff = given.policy.retention_seconds.get(row.kind), rules.cutoff(row.kind, given.policy, now)
    if retention is None or cutoff is None:
        yield Event(event="no_retention", text="kept: no retention is set for this kind")
        return
    due = row.ages_from + retention * 1000
    if row.ages_from > cutoff:
        yield Event(at=due, event="falls_due", text="falls due; until then undrop brings it back")
        return
    yield Event(at=due, event="due", text="due")
    yield from _live(db, row)
    yield from _kept_now(db, row, given)
    if row.quarantined_reason is None and halt is None:
        at = given.turns.next_round(row.instance)
        waits = at is not None and at > now
        text = "the next round looks at it" if waits else "the next round, as soon as a slot is free, looks at it"
        yield Event(at=at if at is not None and waits else 0, event="next_round", text=text)


def _kept_now(db: Database, row: Any, given: Rules) -> Iterator[Event]:
    """Yield what keeps files from going, claimed or not: observing, a halt, the vault whitelist."""
    with db.read() as c:
        halt = given.controls.halt(c, row.instance)
        allowed = vault_whitelist(given.controls.all_in(c))
    if Registry(db).instance(row.instance).mode == "observe":
        text = f"kept: {row.instance} only observes; run: sexton enable {row.instance}"
        yield Event(event="observe", text=text)
    if halt is not None:
        yield Event(at=halt.since or 0, event=f"halted_{halt.by}", text=f"kept: {halt}")
    if row.vault and not vault_allowed(allowed, row.instance, row.vault):
        todo = f"sexton lists add vaults {row.instance}/{row.vault}"
        text = f"kept: only vaults {', '.join(sorted(allowed))} may be touched; {todo}"
        yield Event(event="vault_whitelist", text=text)
    yield from _last_round(db, row)


def _last_round(db: Database, row: Any) -> Iterator[Event]:
    """Yield what the newest round met: a vault it had to leave alone, or a pause that it still waits in."""
    for found in Reports(db).rounds(row.instance, last=1):
        if found.waiting:
            text = f"round {found.id} holds no lease: {found.waiting}; see: sexton holds {row.instance}"
            yield Event(at=found.waiting_since or 0, event="round_waits", text=text)
        status = found.report.vaults.get(str(row.vault), NORMAL) if found.report else NORMAL
        if status not in (NORMAL, NOT_LISTED):
            text = f"round {found.id} left vault {row.vault} alone: {status}; see: sexton vault list {row.instance}"
            yield Event(at=found.ended_at or 0, event="vault_fault", text=text)


def _live(db: Database, row: Any) -> Iterator[Event]:
    known = {n: row._mapping[n] for n in ("kind", "id", "ages_from", "vault", "prefix", "keys", "bytes")}
    mark = DueMark(**known)
    try:
        if SqlOwner(db).live(row.instance, [mark], lambda: None):
            yield Event(event="live", text="kept: live, its owner's view shows it")
    except OwnerSilent as e:
        yield Event(event="owner_silent", text=f"kept: {e}")


def _holds(db: Database, row: Any) -> Iterator[Event]:
    """Yield the operators' holds that keep a mark now."""
    active = HoldStore(db).active(row.instance)
    if not active:
        return
    with db.read() as c:
        above = ancestors(db, c, row.instance, [Ref(row.kind, row.id)])[Ref(row.kind, row.id)]
    for h in active:
        if _keeps(h, row, above):
            text = f"kept by hold {h.id} of {h.placed_by} ({h.what}): {h.reason}; to end it: sexton hold release {h.id}"
            yield Event(at=h.placed_at, event="hold", text=text)
            yield Event(at=h.expires_at, event="hold_ends", text=f"hold {h.id} ends")


def _keeps(hold: Hold, row: Any, above: set[Ref]) -> bool:
    """Return whether a hold keeps a mark, or may keep it: what is under its prefix is known only when it is listed."""
    if hold.scope == "mark":
        return Ref(str(hold.mark_kind), str(hold.mark_id)) in above
    if hold.scope == "prefix":
        names = [row.prefix] if row.prefix else row._mapping["keys"] or ()
        wide = bool(row.prefix) and str(hold.prefix).startswith(row.prefix)
        return hold.vault == row.vault and (wide or any(n.startswith(hold.prefix) for n in names))
    return True


def _gone(row: Any) -> Story:
    events = [Event(at=row.marked_at, event="marked", text=f"marked {row.kind} in vault {row.vault}")]
    if row.batch or row.discarded is None:
        in_round = f", round {row.round}" if row.round else ""
        events.append(Event(at=row.claimed_at, event="claimed", text=f"claimed in batch {row.batch}{in_round}"))
    if row.discarded is not None:
        text = f"discarded: {row.discarded}, its files were left ({row.objects} objects had gone before)"
        events.append(Event(at=row.gone_at, event="discarded", text=text))
    else:
        text = f"gone: {row.objects} objects, {row.bytes} bytes"
        events.append(Event(at=row.gone_at, event="gone", text=text))
    return Story(instance=row.instance, kind=row.kind, id=row.id, events=tuple(events))
