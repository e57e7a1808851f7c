"""Findings of checks, as rows: store what a run saw, count what is open, and change their states when a run ends."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    and_,
    case,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.check.model import Discrepancy, Evidence, FindingState, FindingType, PreviousRun, Run, RunState
from sexton.check.policy import APART_MS, is_stored
from sexton.database.engine import Database
from sexton.database.rows import as_rows, in_list
from sexton.marks.live import MOST_SHOWN, short_key

RUN_DAYS = 400
"""How long runs are kept after their end."""
_FIELDS = tuple(Discrepancy.model_fields)
_KEY = ["instance", "type", "vault", "key"]


def store_seen(db: Database, c: Connection, run: Run, discrepancies: Sequence[Discrepancy]) -> None:
    """Insert or update a finding for each discrepancy; their types, vaults and keys must differ.

    A finding that had ended is open again, and unproven.
    """
    t = db.t.finding
    # No database column holds NUL; such a key is stored with a replacement character, and is never a candidate.
    # Nor does an index hold a long one: an owner's view may show any text as a key.
    data = (
        d.model_dump(mode="json") | {"key": short_key(d.key.replace("\0", "\ufffd")), "record": d.record[:MOST_SHOWN]}
        for d in discrepancies
    )
    text_columns = dict.fromkeys(("type", "vault", "key", "etag", "written", "record", "detail"), Text())
    rows = as_rows(data, **text_columns, expected=BigInteger(), size=BigInteger())
    now = literal(db.now(c), t.c.first_seen.type)
    constants: dict[str, Any] = {"instance": literal(run.instance), "seen_in": literal(run.id), "first_seen": now}
    columns = [*(value.label(name) for name, value in constants.items()), *(rows.c[name] for name in _FIELDS)]
    insert = upsert(t).from_select([*constants, *_FIELDS], select(*columns))
    new: Any = insert.excluded  # the row that would be inserted, of a finding that is seen again
    # The repair of an orphan is a mark, and the orphan is seen until it is deleted; other repairs have failed.
    has_ended = or_(
        t.c.state == FindingState.GONE, and_(t.c.state == FindingState.REPAIRED, t.c.type != FindingType.ORPHAN)
    )
    # Another object under the same key is another finding: it is not proven yet.
    is_other_object = or_(t.c.etag != new.etag, t.c.written != new.written, t.c.size.is_distinct_from(new.size))
    starts_over = or_(has_ended, and_(is_other_object, t.c.state != FindingState.ACCEPTED))
    values = {name: new[name] for name in ("expected", "size", "etag", "written", "record", "detail", "seen_in")}
    for name in ("proven_at", "confirmed_at", "proven_in"):
        values[name] = case((starts_over, null()), else_=t.c[name])
    values["state"] = case((starts_over, FindingState.OPEN.value), else_=t.c.state)
    values["first_seen"] = case((starts_over, new.first_seen), else_=t.c.first_seen)
    c.execute(insert.on_conflict_do_update(index_elements=_KEY, set_=values))


def is_open(
    db: Database, instance: str, type_: FindingType | None = None, key_prefix: str = "", *, confirmed: bool = False
) -> ColumnElement[bool]:
    """Return the condition that a finding is open, is of this type, and that its key begins with a prefix."""
    t = db.t.finding
    conditions = [t.c.instance == instance, t.c.state == FindingState.OPEN]
    conditions += [t.c.confirmed_at.is_not(None)] if confirmed else []
    conditions += [t.c.type == type_] if type_ is not None else []
    if key_prefix:  # never LIKE: it may contain % and _
        conditions.append(func.substr(t.c.key, 1, len(key_prefix)) == key_prefix)
    return and_(*conditions)


def recount(db: Database, c: Connection, instance: str) -> None:
    """Store the counts of open findings, which an operator's decision has changed, with the last check that ended."""
    run = db.t.check_run
    ended = select(func.max(run.c.id)).where(run.c.instance == instance, run.c.open_counts.is_not(None))
    counts = {type_: [n, confirmed] for type_, n, confirmed in open_counts(db, c, instance)}
    c.execute(update(run).where(run.c.id == ended.scalar_subquery()).values(open_counts=counts))


def open_counts(db: Database, c: Connection, instance: str) -> list[tuple[str, int, int]]:
    """Return (type, open findings, confirmed ones among them), by type."""
    t = db.t.finding
    counts = select(t.c.type, func.count(), func.count(t.c.confirmed_at)).where(is_open(db, instance))
    counts = counts.group_by(t.c.type)
    return [(row[0], row[1], row[2]) for row in c.execute(counts.order_by(t.c.type))]


def previous_run(db: Database, c: Connection, run: Run) -> PreviousRun | None:
    """Return what the last whole run before this one saw, without the objects that rounds deleted since.

    Return None where there is none, ``sexton check rebase`` set it aside, or it is so old that the rounds since then,
    which explain what is gone, are forgotten.
    """
    t, instance = db.t.check_run, db.t.instance
    base = select(instance.c.check_base).where(instance.c.id == run.instance).scalar_subquery()
    remembered = t.c.cutoff > db.now(c) - RUN_DAYS * 86_400_000
    is_earlier = and_(t.c.instance == run.instance, t.c.state == RunState.WHOLE, t.c.id < run.id)
    is_comparable = and_(is_earlier, t.c.id > base, remembered)
    row = c.execute(select(t).where(is_comparable).order_by(t.c.id.desc()).limit(1)).one_or_none()
    if row is None:
        return None
    listings = Evidence.model_validate(row.evidence).listings
    # What rounds deleted that began since then: its absence is explained.
    tally, round_ = db.t.tally, db.t.round
    is_later = and_(round_.c.instance == run.instance, round_.c.started_at >= row.cutoff)
    later_rounds = c.execute(select(round_.c.id).where(is_later)).scalars()
    # Listed instead of joined: a planner without statistics of rounds would read the tallies of every instance.
    sums = select(tally.c.vault, func.sum(tally.c.deleted + tally.c.hidden)).group_by(tally.c.vault)
    deleted = {vault: int(number) for vault, number in c.execute(sums.where(in_list(tally.c.round, later_rounds)))}
    objects = {listing.vault: max(0, listing.objects - deleted.get(listing.vault, 0)) for listing in listings}
    shares = {listing.vault: share for listing in listings if (share := listing.named_share) is not None}
    return PreviousRun(objects=objects, live={listing.vault: listing.live for listing in listings}, named_share=shares)


def count_unnamed(db: Database, c: Connection, run: Run) -> dict[str, int]:
    """Return vault → objects that no record names, as a run saw them, whatever the form of their keys."""
    t = db.t.finding
    is_unnamed = and_(_seen_in(db, run), t.c.type.in_((FindingType.ORPHAN, FindingType.UNKNOWN_KIND)))
    counts = select(t.c.vault, func.count()).where(is_unnamed).group_by(t.c.vault)
    return {row[0]: row[1] for row in c.execute(counts)}


def conclude_findings(db: Database, c: Connection, run: Run, evidence: Evidence, *, whole: bool) -> None:
    """Change the states of an instance's findings at the end of a run.

    A whole run proves the findings that it saw, confirms those that are proven by age, and sets the others to GONE; of
    a type that had more than were stored, it may have seen others, too. A partial one withdraws the confirmations of
    unproven findings that it saw: its second check counts for nothing, as it is unknown what the first one was compared
    with.
    """
    t, mark = db.t.finding, db.t.mark
    was_seen = _seen_in(db, run)
    if not whole:
        c.execute(update(t).where(was_seen, t.c.proven_at.is_(None)).values(confirmed_at=None))
        return
    is_orphan = and_(was_seen, t.c.type == FindingType.ORPHAN)
    is_confirmed_by_age = and_(was_seen, t.c.type.in_((FindingType.ORPHAN, FindingType.FRONT_END)))

    c.execute(update(t).where(was_seen, t.c.proven_at.is_(None)).values(proven_at=run.cutoff))
    c.execute(update(t).where(was_seen).values(proven_in=run.id))
    # A repaired orphan that still exists and has no mark: its mark was taken back, so it is open like any other.
    is_own_mark = and_(mark.c.instance == t.c.instance, mark.c.id == t.c.mark)
    has_mark = exists().where(is_own_mark, mark.c.kind == FindingType.ORPHAN.lower())
    c.execute(
        update(t)
        .where(is_orphan, t.c.state == FindingState.REPAIRED, ~has_mark)
        .values(state=FindingState.OPEN, proven_at=run.cutoff, confirmed_at=None)
    )
    is_old = t.c.proven_at <= run.cutoff - APART_MS
    c.execute(update(t).where(is_confirmed_by_age, is_old, t.c.confirmed_at.is_(None)).values(confirmed_at=db.now(c)))
    partly_stored = [type_ for type_, number in evidence.found.items() if not is_stored(FindingType(type_), number)]
    was_not_seen = and_(t.c.instance == run.instance, t.c.seen_in < run.id, t.c.state != FindingState.GONE)
    was_not_seen = and_(was_not_seen, t.c.type.not_in([*partly_stored, *evidence.unread]))
    c.execute(update(t).where(was_not_seen).values(state=FindingState.GONE))


def _seen_in(db: Database, run: Run) -> ColumnElement[bool]:
    t = db.t.finding
    return and_(t.c.instance == run.instance, t.c.seen_in == run.id)
