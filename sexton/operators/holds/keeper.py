"""Holds as a keeper: an operator blocks deletion of an instance, a mark with its descendants, or a prefix.

``HoldKeeper`` judges the candidates of a claim, by their stored files too. For counts and plans, which know no files,
``foreseen`` has the conditions in SQL.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Connection,
    Table,
    and_,
    false,
    func,
    literal,
    or_,
    select,
    true,
)

from sexton.database.engine import Database
from sexton.marks.kept import Blocker, Event, KeepReason, Kept, by_hold, way_out
from sexton.marks.model import Candidate, Place, Ref, Span, WriteToken
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.file_lists import in_span, may_have_prefix, read_lists
from sexton.marks.sql.keeper import Keeper, Use
from sexton.marks.sql.rows import PARENT_LEVELS, TOO_MANY_LEVELS, find_ancestors, has_key_under
from sexton.operators.holds.model import Hold


def find_active(db: Database, instance: str | None = None) -> Sequence[Hold]:
    """Return the holds that are in effect now, of one instance or of all, the oldest first."""
    t = db.t.hold
    with db.read() as c:
        query = select(t).where(t.c.released_at.is_(None), t.c.expires_at > db.now(c)).order_by(t.c.id)
        if instance is not None:
            query = query.where(t.c.instance == instance)
        return [Hold(**row._mapping) for row in c.execute(query)]


def _is_active(db: Database, instance: str, now: int) -> ColumnElement[bool]:
    hold = db.t.hold
    return and_(hold.c.instance == instance, hold.c.released_at.is_(None), hold.c.expires_at > now)


def names(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a hold, a value or a row, blocks a mark of its instance, as far as its row shows it.

    A prefix hold may also block a mark whose prefix is above it: that depends on the files there.
    """
    if hold.scope == "mark":
        return is_or_descends_from(db, hold)
    if hold.scope != "prefix":
        return true()
    has_key = has_key_under(db.t.mark, str(hold.prefix))
    return or_(has_prefix_under(db, hold), and_(db.t.mark.c.vault == hold.vault, has_key))


def is_held(table: Table, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a row is the mark that the hold names."""
    return and_(table.c.instance == hold.instance, and_(table.c.id == hold.mark_id, table.c.kind == hold.mark_kind))


def is_or_descends_from(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark is the one that the hold names, or a descendant within the levels climbed.

    Each mark is judged by its own ancestors. A condition that it is among the descendants of the hold's mark would be
    compared with each of these where PostgreSQL expects more of them than it hashes: 20,000 children took 90 s.
    """
    mark, up = db.t.mark, _lineage(db)
    levels = select(up.c.kind, up.c.id).limit(PARENT_LEVELS + 1).subquery()
    above = select(literal(1)).where(levels.c.kind == hold.mark_kind, levels.c.id == hold.mark_id).exists()
    is_child = and_(mark.c.parent_kind == hold.mark_kind, mark.c.parent_id == hold.mark_id)
    is_below = or_(is_child, and_(_has_two_levels(db), above))
    return or_(is_held(mark, hold), and_(mark.c.instance == hold.instance, mark.c.parent_id.is_not(None), is_below))


def with_descendants(db: Database, hold: Any) -> CompoundSelect[Any]:
    """Select kind, id and state of the mark that the hold names, and of its descendants: the cost follows these alone.

    UNION ends a circle of parents. With LATERAL and OFFSET the children of each mark are looked up by themselves.
    """
    mark = db.t.mark
    rows = select(mark.c.kind, mark.c.id, mark.c.state)
    of_instance = mark.c.instance == hold.instance
    is_child = and_(of_instance, mark.c.parent_kind == hold.mark_kind, mark.c.parent_id == hold.mark_id)
    below = rows.where(is_child).cte("below", recursive=True)
    is_next = and_(of_instance, mark.c.parent_kind == below.c.kind, mark.c.parent_id == below.c.id)
    children = rows.where(is_next).correlate(below).offset(0).lateral("children")
    below = below.union(select(*children.c).select_from(below.join(children, true())))
    return rows.where(is_held(mark, hold)).union(select(*below.c))


def has_many_levels(db: Database) -> ColumnElement[bool]:
    """Return the condition that a mark has more levels of parents than are climbed."""
    mark, up = db.t.mark, _lineage(db)
    has_many = select(literal(1)).select_from(up).offset(PARENT_LEVELS + 1).exists()
    return and_(mark.c.parent_id.is_not(None), _has_two_levels(db), has_many)


def _lineage(db: Database) -> CTE:
    """Return a mark and its ancestors, level by level. UNION ends a circle of parents."""
    mark, child, gone = db.t.mark, db.t.mark.alias("child"), db.t.mark_history.alias("gone")
    up = select(mark.c.instance, mark.c.kind, mark.c.id).correlate(mark).cte("up", recursive=True, nesting=True)
    kind, id_ = (func.coalesce(child.c[column], gone.c[column]) for column in ("parent_kind", "parent_id"))
    climbed = select(up.c.instance, kind, id_).where(id_.is_not(None))
    for table in (child, gone):
        is_same = and_(table.c.instance == up.c.instance, table.c.kind == up.c.kind, table.c.id == up.c.id)
        climbed = climbed.join(table, is_same, isouter=True)
    return up.union(climbed.select_from(up))


def _has_two_levels(db: Database) -> ColumnElement[bool]:
    """Return the condition that the parent of a mark has a parent itself: few do, and this is quicker than climbing."""
    mark = db.t.mark
    found: list[ColumnElement[bool]] = []
    for parent in (mark.alias("child"), db.t.mark_history.alias("gone")):
        is_parent = and_(parent.c.kind == mark.c.parent_kind, parent.c.id == mark.c.parent_id)
        # PostgreSQL must look up each parent by its key: not read the rows with a parent, nor all rows to hash them.
        has_parent = func.coalesce(parent.c.parent_id, parent.c.parent_kind).is_not(None)
        row = select(literal(1)).select_from(parent).where(parent.c.instance == mark.c.instance, is_parent, has_parent)
        found.append(row.correlate(mark).offset(0).exists())
    return or_(*found)


def has_prefix_under(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark's prefix is under that of the hold."""
    mark, prefix = db.t.mark, str(hold.prefix)
    return and_(mark.c.vault == hold.vault, func.substr(mark.c.prefix, 1, len(prefix)) == prefix)


def has_prefix_above(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark's prefix covers that of the hold, so that some of its files may be under it."""
    mark = db.t.mark
    return and_(mark.c.vault == hold.vault, mark.c.prefix.in_(covering_prefixes(str(hold.prefix))))


NARROW = ("mark", "prefix")
"""Scopes of holds on a part of an instance. Any other one holds all of it: a newer Sexton may know more scopes."""


class HoldKeeper(Keeper):
    """Judges candidates by the holds that are in force; they are few, and read under the guard."""

    lists = KeepReason.HOLD

    def __init__(self, db: Database) -> None:
        self._db = db

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        files: Span,
        now: int,
        _snapshot: Any,
    ) -> Mapping[Ref, Kept]:
        """Return what a hold blocks: by its instance, its name or an ancestor's, or the prefix of one of its files."""
        holds = tx.execute(select(self._db.t.hold).where(_is_active(self._db, token.instance, now))).all()
        refs = [candidate.ref for candidate in candidates]
        for row in holds:
            if row.scope not in NARROW:
                return dict.fromkeys(refs, by_hold(row.id))
        blocked = self._by_mark(tx, token, candidates, holds)
        prefix_holds = [row for row in holds if row.scope == "prefix"]
        if prefix_holds:
            for ref, hold_id in self._with_files_under(tx, files, frozenset(refs), prefix_holds).items():
                blocked.setdefault(ref, by_hold(hold_id))
        return blocked

    def foreseen(self, c: Connection, instance: str) -> Mapping[Kept, ColumnElement[bool]]:
        """Return the holds of an instance that are in force, each with the condition that it blocks a mark.

        The first hold on a mark also blocks marks whose ancestors are not all read.
        """
        db, t = self._db, self._db.t.hold
        rows = c.execute(select(t).where(_is_active(db, instance, db.now(c))).order_by(t.c.id)).all()
        # A mark that names no prefix or vault is under none: NULL would leave it out of what no hold blocks, too.
        blocked: dict[Kept, ColumnElement[bool]] = {
            by_hold(row.id): func.coalesce(names(db, row), false()) for row in rows
        }
        for first in [by_hold(row.id) for row in rows if row.scope == "mark"][:1]:
            blocked[first] = or_(blocked[first], has_many_levels(db))
            c.exec_driver_sql("SET LOCAL jit = off")  # compiling the condition would take seconds for each kind
        return blocked

    def uses(self, c: Connection, instance: str, vault: str | None) -> Iterator[Use]:
        """Yield the holds that are in force: of a vault, those on a prefix in it."""
        hold = self._db.t.hold
        held = and_(_is_active(self._db, instance, self._db.now(c)), true() if vault is None else hold.c.vault == vault)
        yield Use(held, hold, "hold", f"sexton hold release; see: sexton hold list {instance}")

    def explain(self, instance: str, mark: Candidate) -> Iterator[Event]:
        """Yield the holds that block the mark, or may, each with its end."""
        holds = find_active(self._db, instance)
        if not holds:
            return
        with self._db.read() as c:
            lineage = find_ancestors(self._db, c, instance, [mark.ref])[mark.ref]
        for hold in holds:
            is_named = may_block(hold, lineage.refs | mark.ancestors, mark.places)
            if is_named or (hold.scope == "mark" and not lineage.is_whole):
                kept = hold.kept if is_named else by_hold(hold.id, TOO_MANY_LEVELS)
                text = (
                    f"kept by {kept} of {hold.placed_by} ({hold.what}): {hold.reason}; "
                    f"to end it: {way_out(hold.kept, instance)}"
                )
                yield Event(at=hold.placed_at, event="hold", text=text, blocks=True)
                yield Event(at=hold.expires_at, event="hold_ends", text=f"{hold.kept} ends")

    def in_force(self, instance: str) -> Iterator[Blocker]:
        """Yield the holds."""
        for hold in find_active(self._db, instance):
            yield Blocker(
                instance=instance,
                held_by=str(hold.kept),
                what=hold.what,
                since=hold.placed_at,
                until=hold.expires_at,
                by=hold.placed_by,
                why=hold.reason,
                way_out=way_out(hold.kept, instance),
            )

    def _by_mark(
        self, tx: Connection, token: WriteToken, candidates: Sequence[Candidate], holds: Sequence[Any]
    ) -> dict[Ref, Kept]:
        held_marks = {Ref(row.mark_kind, row.mark_id): by_hold(row.id) for row in holds if row.scope == "mark"}
        if not held_marks:
            return {}
        not_excluded = by_hold(min(row.id for row in holds if row.scope == "mark"), TOO_MANY_LEVELS)
        lineages = find_ancestors(self._db, tx, token.instance, [candidate.ref for candidate in candidates])
        blocked: dict[Ref, Kept] = {}
        for candidate in candidates:
            lineage = lineages[candidate.ref]
            if not lineage.is_whole:
                blocked[candidate.ref] = not_excluded
            for held_ref in (lineage.refs | candidate.ancestors) & held_marks.keys():
                blocked[candidate.ref] = held_marks[held_ref]
        return blocked

    def _with_files_under(
        self, tx: Connection, span: Span, refs: frozenset[Ref], holds: Sequence[Any]
    ) -> dict[Ref, int]:
        """Return the marks that have a file under the prefix of a hold, each with the first such hold."""
        held: dict[Ref, int] = {}
        under_one = or_(*(may_have_prefix(self._db, hold.prefix) for hold in holds))
        for files in read_lists(self._db, tx, in_span(self._db, span), under_one):
            for run in files.runs_of(refs - held.keys()):
                keys = files.keys_of(run)
                for hold in holds:
                    if run.vault == hold.vault and any(key.startswith(hold.prefix) for key in keys):
                        held.setdefault(run.ref, hold.id)
        return held


def may_block(hold: Hold, lineage: Set[Ref], places: Sequence[Place]) -> bool:
    """Return whether an active hold of its instance blocks deletion of a mark, or may block it.

    A hold on a prefix within the mark's own prefix may block it: only a listing shows which files are under the prefix.
    ``lineage``: the mark itself and what it belongs to. ``places``: where its files are.
    """
    if hold.scope == "mark":
        return Ref(str(hold.mark_kind), str(hold.mark_id)) in lineage
    if hold.scope == "instance":
        return True
    held = str(hold.prefix)
    return any(
        (place.prefix is not None and held.startswith(place.prefix))
        or any(name.startswith(held) for name in (place.prefix, *(place.keys or ())) if name)
        for place in places
        if place.vault == hold.vault
    )
