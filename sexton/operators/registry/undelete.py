"""What lets undeleted objects stay: a hold on their place, and no claim that could still delete them.

A hold blocks claims and second passes. Nothing blocks the first pass of a mark that is claimed, a round that has asked
about holds already, or a request whose worker was replaced: an undelete waits for these.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from sexton.database.engine import Database
from sexton.database.rows import READ_ROWS
from sexton.kernel.errors import SextonError
from sexton.marks.model import MarkState, Reason, Ref, Span
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.file_lists import in_span, may_have_prefix, of_instance, read_lists
from sexton.marks.sql.leases import may_be_deleting, seconds_of_requests
from sexton.marks.sql.rows import has_key_under, refs_in
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import HoldStore
from sexton.storage.model import IN_FLIGHT_SECONDS

REASON = "undelete"
"""Of the holds that undeletes place."""
HOLD_SECONDS = 7 * 86_400
"""For so long an undelete holds the place of its objects."""


TRIED_AGAIN = (Reason.DELETE_FAILED, Reason.FILES_UNREADABLE)
"""Quarantines that rounds lift."""


class UndeleteUnsafe(SextonError):
    """A claimed mark would delete the objects again."""


class ClaimOver(NamedTuple):
    """A claimed mark that may delete the objects; ``quarantined``: the reason, empty for none."""

    ref: Ref
    in_first_pass: bool
    quarantined: str
    finished: bool


def hold_place(holds: HoldStore, place: Hold) -> Hold:
    """Hold a place, as ``hold_on`` returns it, unless an earlier undelete holds all of it for half as long.

    Return the hold, on that place alone.

    Raises:
        UnknownInstance: no such instance.
        BadInput: no such vault, or no hold may be placed on the prefix.
    """
    active, now = holds.newest(place.instance, 1_000, active=True)
    for hold in active:
        is_above = hold.vault == place.vault and str(place.prefix).startswith(str(hold.prefix))
        # A hold that an operator placed for another reason may be released because of that.
        if hold.reason == REASON and is_above and hold.expires_at >= now + 500 * HOLD_SECONDS:
            return hold.model_copy(update={"prefix": place.prefix})
    return holds.place(place, HOLD_SECONDS)[0]


def hold_on(instance: str, vault: str, prefix: str) -> Hold:
    """Return the hold that an undelete places, not placed yet."""
    return Hold(instance=instance, scope="prefix", vault=vault, prefix=prefix, reason=REASON)


def find_deletion(db: Database, place: Hold, keys: Collection[str] = ()) -> str:
    """Return what deletes objects of a place now, although it is held, and ends by itself; empty: nothing does.

    ``place``: a hold; one that is placed must still be in force. ``keys``: all of them in the place; empty: every
    object.

    Raises:
        UndeleteUnsafe: an operator must end it; the message says how.
    """
    hold, instance = db.t.hold, place.instance
    with db.snapshot() as c:  # of a take-over, either the marks that it settles are seen, or the take-over
        # Before requests are looked for: however long this process rests between the two, what works now is seen.
        works = may_be_deleting(db, c, instance)
        in_force = and_(hold.c.id == place.id, hold.c.released_at.is_(None), hold.c.expires_at > db.now(c))
        if place.id and c.execute(select(hold.c.id).where(in_force)).first() is None:
            raise UndeleteUnsafe(f"hold {place.id} on {place.what} has ended meanwhile: run the command again")
        if seconds_of_requests(db, c, instance) > 0:
            return f"a request of {instance}'s last round may still delete objects, for up to {IN_FLIGHT_SECONDS:.0f} s"
        return decide(instance, _claims_over(db, c, place, keys), works=works)


def decide(instance: str, claims: Collection[ClaimOver], *, works: bool) -> str:
    """Return what deletes now, of the claimed marks that may delete the objects; as ``find_deletion``. Pure.

    ``works``: whether a round works on the instance, or may have a request on its way.
    """
    # A round may have asked the keepers about the files of any mark before the place was held.
    if works and claims:
        return (
            f"{_first_of(claims)} of {instance} is claimed, and the round that runs may delete its files; to end it "
            f"now: sexton stop {instance} --reason TEXT"
        )
    if waiting := [c for c in claims if c.in_first_pass and not (c.quarantined or c.finished)]:
        raise UndeleteUnsafe(
            f"{_first_of(waiting)} of {instance} is claimed, and the next round deletes its files, which no hold "
            f"blocks; first: sexton round run {instance} (after a stop: sexton start {instance})"
        )
    if tried := [c for c in claims if c.finished or (c.in_first_pass and c.quarantined in TRIED_AGAIN)]:
        raise UndeleteUnsafe(
            f"{_first_of(tried)} of {instance} is claimed, and its last steps are tried again, which no hold "
            f"blocks; first {give_up(instance, min(tried).ref)}"
        )
    return ""


def find_later_deletions(db: Database, place: Hold, keys: Collection[str] = ()) -> set[Ref]:
    """Return the claimed marks whose second pass may delete objects of a place when its hold ends."""
    with db.read() as c:
        return {claim.ref for claim in _claims_over(db, c, place, keys)}


def _first_of(claims: Collection[ClaimOver]) -> str:
    """Return the first mark, and how many more there are, for a message."""
    first = min(claims).ref
    others = f" (and {len(claims) - 1} more)" if len(claims) > 1 else ""
    return f"mark {first.kind} {first.id}{others}"


def give_up(instance: str, ref: Ref) -> str:
    """Return how to give a mark up, for a message."""
    return f"give the mark up permanently: sexton quarantine discard {instance} {ref.kind}/{ref.id} --reason 'undelete'"


def common_folder(keys: Sequence[str]) -> str:
    """Return the deepest folder that contains all keys, with its slash, or empty; of a single key, the key itself."""
    if len(keys) == 1:
        return keys[0]
    first, last = min(keys), max(keys)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    return first[: first.rfind("/", 0, shared) + 1]


def _claims_over(db: Database, c: Connection, place: Hold, keys: Collection[str]) -> list[ClaimOver]:
    """Return the claimed marks that may delete one of the objects, or any in the place.

    They have a prefix, a key or a stored file there, tried or not, or they name nothing: only their owner knows what
    they delete. A child that was claimed with its parent is left out: the parent's files include its own.
    """
    mark, prefix, wanted = db.t.mark, str(place.prefix), sorted(keys)
    claimed = and_(mark.c.instance == place.instance, mark.c.state == MarkState.CLAIMED, mark.c.absorbed.is_(False))

    def is_meant(key: str) -> bool:
        return begins_one(wanted, key, whole=True) if wanted else key.startswith(prefix)

    lists = read_lists(db, c, of_instance(db, place.instance), may_have_prefix(db, prefix))
    with_file = {
        run.ref
        for files in lists
        for run in files.runs
        if run.vault == place.vault and any(map(is_meant, files.keys_of(run)))
    }
    is_named_there = or_(
        func.substr(mark.c.prefix, 1, len(prefix)) == prefix,
        mark.c.prefix.in_(covering_prefixes(prefix)),
        has_key_under(mark, prefix),
    )
    in_vault = or_(mark.c.vault == place.vault, mark.c.vault.is_(None))
    certain = with_file | _unnamed_claims(db, c, claimed)
    is_there = or_(and_(in_vault, is_named_there), refs_in(mark, certain))
    columns = (mark.c.kind, mark.c.id, mark.c.prefix, mark.c["keys"])
    state = (mark.c.first_pass_at, mark.c.quarantined_reason, mark.c.finished)
    rows = c.execute(select(*columns, *state).where(claimed, is_there).execution_options(yield_per=READ_ROWS))
    return [
        ClaimOver(ref, row.first_pass_at is None, row.quarantined_reason or "", row.finished)
        for row in rows
        if (ref := Ref(row.kind, row.id)) in certain
        or not wanted
        or (row.prefix is not None and begins_one(wanted, row.prefix))
        or any(map(is_meant, row._mapping["keys"] or ()))
    ]


def begins_one(ordered_keys: Sequence[str], text: str, *, whole: bool = False) -> bool:
    """Return whether one of the keys, which are in order, begins with a text; ``whole``: is the text."""
    position = bisect_left(ordered_keys, text)
    if position == len(ordered_keys):
        return False
    return ordered_keys[position] == text if whole else ordered_keys[position].startswith(text)


def _unnamed_claims(db: Database, c: Connection, claimed: ColumnElement[bool]) -> set[Ref]:
    """Return claimed marks that name nothing, and whose stored files are not all of theirs.

    After a first pass the owner is queried again, whatever files are stored.
    """
    mark = db.t.mark
    is_unnamed = and_(mark.c.prefix.is_(None), mark.c["keys"].is_(None))
    waits = or_(mark.c.first_pass_at.is_not(None), mark.c.quarantined_reason.is_not(None))
    columns = (mark.c.batch, mark.c.kind, mark.c.id, mark.c.first_pass_at)
    rows = c.execute(select(*columns).where(claimed, is_unnamed, waits)).all()
    unnamed = {Ref(row.kind, row.id) for row in rows}
    in_first_pass = {Ref(row.kind, row.id) for row in rows if row.first_pass_at is None}
    for batch in sorted({row.batch for row in rows if row.first_pass_at is None}):
        for files in read_lists(db, c, in_span(db, Span(batch))):
            unnamed -= in_first_pass & files.refs
    return unnamed
