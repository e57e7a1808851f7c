"""Prepared marks as a keeper: while a load may write and commit its files, no other mark deletes them.

A load announces the prefix under which it writes, and nobody knows its files before they are there. So a mark waits
whose prefix covers that one, and so does an orphan below it. Two loads may announce one prefix, such as a failed load
and its repetition: the mark that expires first waits for the later one.

A load that is announced after a claim is refused (``sexton.prepare``); so is the commit of a load that the claim could
not see (``sexton.commit``); both functions are in database/migrations/versions/0001.functions.sql.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Text, and_, false, func, literal_column, or_, select

from sexton.database.engine import Database
from sexton.database.rows import as_rows, in_list
from sexton.marks.kept import Event, Kept, by_load
from sexton.marks.model import Candidate, Ref, Span, WriteToken
from sexton.marks.policy import covering_prefixes, end_of_prefix
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.rows import CLAIMED, refs_in

PREPARED = "prepared"
"""The kind of the marks that announce files."""
_PREPARED: ColumnElement[str] = literal_column(f"'{PREPARED}'")
"""Text instead of a parameter, as ``CLAIMED``."""


class PreparedKeeper(Keeper):
    """Judges candidates by the prepared marks that are not claimed; they are few, and read under the guard.

    It need not remember what is claimed: ``sexton.prepare`` reads which prefixes are.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        _files: Span,
        _now: int,
        _snapshot: Any,
    ) -> Mapping[Ref, Kept]:
        """Return the candidates that wait for a load."""
        loads = find_loads(self._db, tx, token.instance, candidates)
        return {ref: by_load(load.id) for ref, load in loads.items()}

    def explain(self, instance: str, mark: Candidate) -> Iterator[Event]:
        """Yield the load that may still write and commit files below a prefix of the mark; of several the last."""
        with self._db.read() as c:
            loads = find_loads(self._db, c, instance, [mark])
        for load in loads.values():
            text = f"kept: load {load.owner_txn} may still write its files (prepared mark {load.id})"
            yield Event(event="prepared", text=text)
            yield Event(at=load.expires_at, event="load_expires", text=f"load {load.owner_txn} expires")


class Load(NamedTuple):
    """A prepared mark that is not claimed, by its id. ``expires_at``: of its transaction, in ms since 1970."""

    id: str
    owner_txn: str | None
    expires_at: int


def find_loads(db: Database, c: Connection, instance: str, candidates: Sequence[Candidate]) -> dict[Ref, Load]:
    """Return which of these marks wait for a load, each with the load that expires last.

    A mark does not wait for its children that are claimed with it: the claim judges them itself.
    """
    found = [*_below_prefixes(db, c, instance, candidates), *_above_orphans(db, c, instance, candidates)]
    mark = db.t.mark
    is_one = and_(mark.c.instance == instance, refs_in(mark, {Ref(PREPARED, id_) for _, id_ in found}))
    of_load = select(mark.c.id, mark.c.owner_txn, mark.c.retention_starts_at).where(is_one)
    by_id = {row.id: Load(*row) for row in c.execute(of_load)} if found else {}
    loads: dict[Ref, Load] = {}
    for candidate, id_ in found:
        load, known = by_id[id_], loads.get(candidate.ref)
        # Of two loads that expire at one instant, the one with the larger id is later.
        expires = (candidate.retention_starts_at or 0, candidate.ref.id)
        is_later = candidate.ref.kind != PREPARED or (load.expires_at, load.id) > expires
        if is_later and (known is None or load.expires_at > known.expires_at):
            loads[candidate.ref] = load
    return loads


def _below_prefixes(
    db: Database, c: Connection, instance: str, candidates: Sequence[Candidate]
) -> list[tuple[Candidate, str]]:
    """Return the candidates with a load under a prefix of theirs, the one that expires last."""
    with_prefix = [(candidate, place) for candidate in candidates for place in candidate.places if place.prefix]
    if not with_prefix:
        return []
    mark = db.t.mark
    rows: list[dict[str, Any]] = []
    for n, (candidate, place) in enumerate(with_prefix):
        # The range of prefixes under that of the place; neither the mark itself nor its children are loads it awaits.
        ref, prefix = candidate.ref, str(place.prefix)
        own = ref.id if ref.kind == PREPARED else ""
        parent = {"parent_kind": ref.kind, "parent_id": ref.id} if candidate.children is not None else {}
        rows.append({"n": n, "vault": place.vault, "first": prefix, "end": end_of_prefix(prefix), "own": own, **parent})
    texts = dict.fromkeys(("vault", "first", "end", "own", "parent_kind", "parent_id"), Text())
    given = as_rows(rows, n=BigInteger(), **texts)
    is_child = and_(mark.c.parent_kind == given.c.parent_kind, mark.c.parent_id == given.c.parent_id)
    latest = (
        select(mark.c.id)
        .where(_is_load(db, instance), or_(mark.c.vault.is_(None), mark.c.vault == given.c.vault))
        .where(mark.c.prefix >= given.c.first, mark.c.prefix < given.c.end)  # never LIKE: a prefix may contain % and _
        .where(mark.c.id != given.c.own, ~func.coalesce(is_child, false()))
        .order_by(mark.c.retention_starts_at.desc(), mark.c.id.desc())
        .limit(1)
    )
    found = c.execute(select(given.c.n, latest.scalar_subquery())).all()
    return [(with_prefix[n][0], id_) for n, id_ in found if id_ is not None]


def _above_orphans(
    db: Database, c: Connection, instance: str, candidates: Sequence[Candidate]
) -> list[tuple[Candidate, str]]:
    """Return the orphans that a check found under the prefix of a load, with each such load.

    Objects that the owner itself has marked are none: it never writes a key again.
    """
    orphans = [(candidate, place) for candidate in candidates for place in candidate.places if place.etags]
    covering = {prefix for _, place in orphans for key in place.keys or () for prefix in covering_prefixes(key)}
    if not covering:
        return []
    mark = db.t.mark
    query = select(mark.c.id, mark.c.vault, mark.c.prefix).where(_is_load(db, instance))
    rows = c.execute(query.where(in_list(mark.c.prefix, sorted(covering)))).all()
    return [
        (candidate, row.id)
        for row in rows
        for candidate, place in orphans
        if row.vault in (None, place.vault) and any(key.startswith(row.prefix) for key in place.keys or ())
    ]


def _is_load(db: Database, instance: str) -> ColumnElement[bool]:
    """Return the condition that a mark is a load's that may still commit, as the index of prepared marks has it."""
    mark = db.t.mark
    return and_(mark.c.instance == instance, mark.c.kind == _PREPARED, mark.c.state != CLAIMED)
