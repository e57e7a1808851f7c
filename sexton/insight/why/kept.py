"""Everything that keeps one mark now, whatever it is: holds, halts, plans that wait for a person, vaults, owners."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import or_, select

from sexton.database.counters import NORMAL
from sexton.database.engine import Database
from sexton.insight.views import Event
from sexton.insight.why.context import Rules
from sexton.marks.model import DueMark, Expansion, Place, Ref
from sexton.marks.sql.ancestors import find_ancestors
from sexton.operators.controls.policy import vault_allowed, vault_whitelist
from sexton.operators.holds.store import Hold, HoldStore
from sexton.operators.registry.store import Registry
from sexton.owners.port import OwnerSilent
from sexton.protection.model import ProtectionState
from sexton.protection.sql.covering import covering
from sexton.recycle.model import Plan
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning import policy as rules
from sexton.recycle.rounds.sql.reports import Reports
from sexton.storage.port import NOT_LISTED


def waiting(db: Database, row: Any, given: Rules) -> Iterator[Event]:
    """Yield when a mark falls due, everything that keeps it now, and when the next round looks at it."""
    yield from holds(db, row, given)
    policy = rules.for_owner(given.policy, Registry(db).instance(row.instance).owner)
    with db.read() as c:
        now = db.now(c)
        halt = given.controls.halt(c, row.instance)
    retention, cutoff = policy.retention_seconds.get(row.kind), rules.cutoff(row.kind, policy, now)
    if retention is None or cutoff is None:
        yield Event(event="no_retention", text="kept: no retention is set for this kind")
        return
    due = row.ages_from + retention * 1000
    if row.ages_from > cutoff:
        yield Event(at=due, event="falls_due", text="falls due; until then undrop brings it back")
        return
    yield Event(at=due, event="due", text="due")
    awaited = list(_approval(db, row, now))
    yield from awaited
    yield from _protections(db, row, given)
    yield from _live(row, given)
    yield from kept(db, row, given)
    if row.quarantined_reason is None and halt is None and not awaited:
        at = given.turns.next_round(row.instance)
        waits = at is not None and at > now
        text = "the next round looks at it" if waits else "the next round, as soon as a slot is free, looks at it"
        yield Event(at=at if at is not None and waits else 0, event="next_round", text=text)


def kept(db: Database, row: Any, given: Rules) -> Iterator[Event]:
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
    for cap in PaceStore(db).caps(row.instance):
        if cap.vault == row.vault:
            text = f"its vault is paced: no more than {cap.keys_per_second:,} keys/s; see: sexton pace"
            yield Event(at=cap.since, event="paced", text=text)
    yield from _last_round(db, row)


def holds(db: Database, row: Any, given: Rules) -> Iterator[Event]:
    """Yield the operators' holds that keep a mark now."""
    active = HoldStore(db).active(row.instance)
    if not active:
        return
    told = _told(row, given)
    with db.read() as c:
        above = find_ancestors(db, c, row.instance, [Ref(row.kind, row.id)])[Ref(row.kind, row.id)]
    for h in active:
        if _keeps(h, above | set(told.above), told.places):
            text = f"kept by hold {h.id} of {h.placed_by} ({h.what}): {h.reason}; to end it: sexton hold release {h.id}"
            yield Event(at=h.placed_at, event="hold", text=text)
            yield Event(at=h.expires_at, event="hold_ends", text=f"hold {h.id} ends")


def _protections(db: Database, row: Any, given: Rules) -> Iterator[Event]:
    """Yield the sync jobs' protections that cover any of a mark's files."""
    for p in covering(db, row.instance, _told(row, given).places):
        waits = (
            f"finished, until the watermark is above {p.valid_ts}"
            if p.state is ProtectionState.SOFT
            else "until it is done"
        )
        text = f"kept by protection {p.job} of {p.owner}, {waits}; see: sexton protection list {row.instance}"
        yield Event(at=p.registered_at, event="protection", text=text)
        if p.state is not ProtectionState.SOFT:
            yield Event(at=p.expires_at, event="protection_ends", text=f"protection {p.job} ends unless it is renewed")


def _approval(db: Database, row: Any, now: int) -> Iterator[Event]:
    """Yield the plans with this mark in them that wait for a person."""
    plan = db.t.plan
    open_ = select(plan.c.id, plan.c.created_at, plan.c.awaits, plan.c.expires_at, plan.c.body).where(
        plan.c.instance == row.instance,
        plan.c.awaits.is_not(None),
        plan.c.state == "PLANNED",
        or_(plan.c.expires_at.is_(None), plan.c.expires_at > now),
    )
    with db.read() as c:
        found = c.execute(open_.order_by(plan.c.id)).all()
    for its in found:
        kinds = Plan.model_validate(its.body | {"id": its.id}).kinds
        if not any(k.kind == row.kind and k.since < row.ages_from <= k.cutoff for k in kinds):
            continue
        text = f"kept: plan {its.id} with it awaits approval: {its.awaits}"
        yield Event(at=its.created_at, event="awaits_approval", text=text)
        if its.expires_at is not None:
            yield Event(at=its.expires_at, event="approval_ends", text=f"plan {its.id} expires")


def _last_round(db: Database, row: Any) -> Iterator[Event]:
    """Yield what the newest round met: a vault it had to leave alone, or a pause that it still waits in."""
    for found in Reports(db).rounds(row.instance, last=1):
        if found.waiting:
            text = f"round {found.id} holds no lease: {found.waiting}; see: sexton blockers {row.instance}"
            yield Event(at=found.waiting_since or 0, event="round_waits", text=text)
        status = found.report.vaults.get(str(row.vault), NORMAL) if found.report else NORMAL
        if status not in (NORMAL, NOT_LISTED):
            text = f"round {found.id} left vault {row.vault} alone: {status}; see: sexton vault list {row.instance}"
            yield Event(at=found.ended_at or 0, event="vault_fault", text=text)


def _live(row: Any, given: Rules) -> Iterator[Event]:
    try:
        if given.owner.live(row.instance, [_mark(row)], lambda: None):
            yield Event(event="live", text="kept: live, its owner says so")
    except OwnerSilent as e:
        yield Event(event="owner_silent", text=f"kept: {e}")


def _told(row: Any, given: Rules) -> Expansion:
    """Return what a mark stands for: its own words, and its owner's where these can be had."""
    try:
        told = given.owner.expand(row.instance, [_mark(row)], lambda: None).get(Ref(row.kind, row.id))
    except OwnerSilent:
        told = None  # `why` says so where it asks what is live
    if told is None and row.vault:
        keys = row._mapping["keys"]
        return Expansion(places=(Place(vault=row.vault, prefix=row.prefix, keys=tuple(keys) if keys else None),))
    return told or Expansion()


def _mark(row: Any) -> DueMark:
    return DueMark(**{n: row._mapping[n] for n in ("kind", "id", "ages_from", "vault", "prefix", "keys", "bytes")})


def _keeps(hold: Hold, above: set[Ref], places: Sequence[Place]) -> bool:
    """Return whether a hold keeps a mark, or may keep it: what is under its prefix is known only when it is listed."""
    if hold.scope == "mark":
        return Ref(str(hold.mark_kind), str(hold.mark_id)) in above
    if hold.scope == "instance":
        return True
    held = str(hold.prefix)
    for place in places:
        if place.vault == hold.vault:
            wide = bool(place.prefix) and held.startswith(str(place.prefix))
            if wide or any(n.startswith(held) for n in (place.prefix, *(place.keys or ())) if n):
                return True
    return False
