"""Conclude a check run: compare it with the last whole run, change the states of its findings, and delete old rows."""

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, select, update

from sexton.check.model import Evidence, FindingState, FindingType, PreviousRun, Run, RunState
from sexton.check.policy import APART_MS, is_stored
from sexton.database.engine import Database
from sexton.database.rows import in_list

RUN_DAYS = 400
PAGE_ROWS = 1_000
MOST_PAGES = 50
"""A check deletes at most this many pages of rows; the next check continues."""


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
    deleted = _deleted_since(db, c, run.instance, row.cutoff)
    objects = {listing.vault: max(0, listing.objects - deleted.get(listing.vault, 0)) for listing in listings}
    shares = {listing.vault: share for listing in listings if (share := listing.named_share) is not None}
    return PreviousRun(objects=objects, live={listing.vault: listing.live for listing in listings}, named_share=shares)


def count_unnamed(db: Database, c: Connection, run: Run) -> dict[str, int]:
    """Return vault → objects that no record names, as a run saw them, whatever the form of their keys."""
    t = db.t.finding
    is_unnamed = and_(_seen_in(db, run), t.c.type.in_((FindingType.ORPHAN, FindingType.UNKNOWN_KIND)))
    counts = select(t.c.vault, func.count()).where(is_unnamed).group_by(t.c.vault)
    return {row[0]: row[1] for row in c.execute(counts)}


def _deleted_since(db: Database, c: Connection, instance: str, since: int) -> dict[str, int]:
    """Return vault → objects deleted by rounds that began since an instant (ms): their absence is explained."""
    tally, round_ = db.t.tally, db.t.round
    is_later = and_(round_.c.instance == instance, round_.c.started_at >= since)
    later_rounds = c.execute(select(round_.c.id).where(is_later)).scalars()
    # Listed instead of joined: a planner without statistics of rounds would read the tallies of every instance.
    sums = select(tally.c.vault, func.sum(tally.c.deleted + tally.c.hidden)).group_by(tally.c.vault)
    sums = sums.where(in_list(tally.c.round, later_rounds))
    return {row[0]: int(row[1]) for row in c.execute(sums)}


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


def forget_old_runs(db: Database, instance: str) -> None:
    """Delete runs that ended more than ``RUN_DAYS`` ago, and GONE findings that were last seen by such a run.

    The newest run and the newest whole run stay, for people to see. Findings that are open, accepted or repaired stay
    too.
    """
    run, finding = db.t.check_run, db.t.finding
    newest = select(func.max(run.c.id)).where(run.c.instance == instance)
    needed = newest.union(newest.where(run.c.state == RunState.WHOLE))
    for _ in range(MOST_PAGES):
        with db.write() as c:
            ended_long_ago = run.c.ended_at < db.now(c) - RUN_DAYS * 86_400_000
            is_old = and_(run.c.instance == instance, run.c.state != RunState.RUNNING, ended_long_ago)
            last_old = c.execute(select(func.max(run.c.id)).where(is_old)).scalar_one()
            if last_old is None:
                return
            of_instance = finding.c.instance == instance
            is_gone = and_(of_instance, finding.c.state == FindingState.GONE, finding.c.seen_in <= last_old)
            deleted = _delete_page(c, finding, is_gone)
            deleted += _delete_page(c, run, and_(is_old, run.c.id.not_in(needed)))
        if not deleted:
            return


def _delete_page(c: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    page = select(table.c.id).where(condition).limit(PAGE_ROWS)
    return c.execute(delete(table).where(table.c.id.in_(page))).rowcount
