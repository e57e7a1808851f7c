"""Find the registered objects that are being deleted.

These functions are called after ``wait_for_claims``: no more registered objects are claimed then.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, false, func, literal, or_, select, tuple_

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.leases import seconds_of_requests
from sexton.protection.model import NAMED, Item

FILES_AT_ONCE = 5_000


def find_claimed(
    db: Database, c: Connection, instance: str, registration_id: int, items: Sequence[Item]
) -> Sequence[tuple[str, str]]:
    """Return (vault, key) of the registered objects, and of those under registered prefixes, that are being deleted.

    A registered prefix may lose objects that a second pass finds. Only while a request of a first pass may be on its
    way, whose rows are gone, the prefixes of marks that await their second pass are returned too, where one of them
    and a registered prefix overlap. An object that is deleted already has no row any longer: only its store can answer,
    after this, whether it exists.

    Args:
        db: the database.
        c: a connection in a transaction.
        instance: the instance.
        registration_id: the protection in whose rows the items are.
        items: items of the registration.
    """
    objects = [(item.vault, item.key) for item in items if not item.prefix]
    prefixes = [item.key for item in items if item.prefix]
    claimed = set(_claimed_objects(db, c, instance, registration_id, objects))
    claimed |= set(_claimed_under_prefixes(db, c, instance, registration_id, prefixes))
    claimed |= set(_in_second_pass(db, c, instance, objects))
    if prefixes and seconds_of_requests(db, c, instance) > 0:
        claimed |= set(_overlapping_second_passes(db, c, instance, items))
    return sorted(claimed)


def claimed_files(db: Database, instance: str) -> Iterator[Sequence[tuple[str, str]]]:
    """Yield (vault, key) of all objects that are being deleted, in pages, to be tested by a filter."""
    file, mark = db.t.mark_file, db.t.mark
    files = select(file.c.batch, file.c.seq, file.c.vault, file.c.key).join(mark, _is_own_mark(db))
    files = files.where(file.c.instance == instance, mark.c.state == "CLAIMED").order_by(file.c.batch, file.c.seq)
    last_batch, last_seq = -1, -1
    while True:
        is_later = tuple_(file.c.batch, file.c.seq) > tuple_(literal(last_batch), literal(last_seq))
        with db.read() as c:
            rows = c.execute(files.where(is_later).limit(FILES_AT_ONCE)).all()
        if rows:
            yield [(row.vault, row.key) for row in rows]
        if len(rows) < FILES_AT_ONCE:
            return
        last_batch, last_seq = rows[-1].batch, rows[-1].seq


def prefixes_of_requests(db: Database, instance: str) -> Sequence[tuple[str, str]]:
    """Return (vault, prefix) of a few marks whose first pass has ended, while a request of it may be on its way.

    A filter cannot be asked about a prefix. Without a vault (``*``): in every one.
    """
    with db.read() as c:
        if seconds_of_requests(db, c, instance) <= 0:
            return ()
        rows = c.execute(_second_passes(db, instance).order_by(db.t.mark.c.prefix).limit(NAMED))
        return [(row.vault or "*", row.prefix) for row in rows]


def _claimed_objects(
    db: Database, c: Connection, instance: str, registration_id: int, objects: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the objects that are stored files of a claimed mark."""
    file, mark, item = db.t.mark_file, db.t.mark, db.t.protection_item
    keys_by_vault: dict[str, list[str]] = defaultdict(list)
    for vault, key in objects:
        keys_by_vault[vault].append(key)
    ranges = [
        and_(item.c.vault == vault, item.c.key.between(min(keys), max(keys))) for vault, keys in keys_by_vault.items()
    ]
    is_item = and_(item.c.instance == file.c.instance, item.c.vault == file.c.vault, item.c.key == file.c.key)
    is_registered = and_(item.c.protection == registration_id, item.c.prefix.is_(False), or_(false(), *ranges))
    query = select(item.c.vault, item.c.key).join(file, is_item).join(mark, _is_own_mark(db))
    query = query.where(is_registered, file.c.instance == instance, mark.c.state == "CLAIMED").distinct()
    queried = set(objects)
    for row in c.execute(query):
        if (row.vault, row.key) in queried:
            yield row.vault, row.key


def _claimed_under_prefixes(
    db: Database, c: Connection, instance: str, registration_id: int, prefixes: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield stored files of claimed marks under the prefixes, a few for each length: there may be millions."""
    prefixes_by_length: dict[int, set[str]] = defaultdict(set)  # there are few lengths, however many prefixes there are
    for prefix in prefixes:
        prefixes_by_length[len(prefix)].add(prefix)
    for length, same_length in prefixes_by_length.items():
        query = _claimed_under_query(db, instance, registration_id, sorted(same_length), length)
        for row in c.execute(query):
            yield row.vault, row.key


def _claimed_under_query(
    db: Database, instance: str, registration_id: int, prefixes: Sequence[str], length: int
) -> Any:
    """Select stored files of claimed marks that begin with one of these prefixes of the same length."""
    file, mark, item = db.t.mark_file, db.t.mark, db.t.protection_item
    begins_with_item = func.substr(file.c.key, 1, literal(length)) == item.c.key
    is_item = and_(item.c.instance == file.c.instance, item.c.vault == file.c.vault, begins_with_item)
    is_registered = and_(item.c.protection == registration_id, item.c.prefix, in_list(db, item.c.key, prefixes))
    query = select(file.c.vault, file.c.key).join(item, is_item).join(mark, _is_own_mark(db))
    return query.where(is_registered, file.c.instance == instance, mark.c.state == "CLAIMED").limit(NAMED)


def _in_second_pass(
    db: Database, c: Connection, instance: str, objects: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the objects under the prefix of a claimed mark in its second pass.

    A worker that lost its lease may be deleting objects that this pass found, although their rows are deleted.
    """
    mark = db.t.mark
    prefixes = sorted({prefix for _, key in objects for prefix in covering_prefixes(key)})
    is_in_second_pass = and_(mark.c.instance == instance, mark.c.state == "CLAIMED", mark.c.first_pass_at.is_not(None))
    query = select(mark.c.vault, mark.c.prefix).where(is_in_second_pass, in_list(db, mark.c.prefix, prefixes))
    second_pass_prefixes = {(row.vault, row.prefix) for row in c.execute(query)}
    for vault, key in objects:
        # A mark without a vault deletes in every one.
        if any(not second_pass_prefixes.isdisjoint(((vault, p), (None, p))) for p in covering_prefixes(key)):
            yield vault, key


def _overlapping_second_passes(
    db: Database, c: Connection, instance: str, items: Sequence[Item]
) -> Iterator[tuple[str, str]]:
    """Yield the prefixes of a few marks that await their second pass and overlap a registered one, with its vault."""
    prefixes_by_vault: dict[str, set[str]] = defaultdict(set)
    for item in items:
        if item.prefix:
            prefixes_by_vault[item.vault].add(item.key)
    registered = {vault: _Prefixes(prefixes) for vault, prefixes in prefixes_by_vault.items()}
    found = 0
    for row in c.execute(_second_passes(db, instance).execution_options(yield_per=FILES_AT_ONCE)):
        for vault in registered if row.vault is None else (row.vault,):
            if vault in registered and registered[vault].overlap(row.prefix):
                yield vault, row.prefix
                found += 1
        if found >= NAMED:
            return


class _Prefixes:
    """Prefixes of one vault, to be compared with very many others."""

    def __init__(self, prefixes: Set[str]) -> None:
        self._prefixes, self._ordered = prefixes, sorted(prefixes)
        self._lengths = {len(prefix) for prefix in prefixes}  # there are few lengths, however many prefixes there are

    def overlap(self, prefix: str) -> bool:
        """Return whether one of the prefixes begins with this one, or this one with one of them."""
        position = bisect_left(self._ordered, prefix)
        is_around = position < len(self._ordered) and self._ordered[position].startswith(prefix)
        return is_around or any(prefix[:length] in self._prefixes for length in self._lengths)


def _second_passes(db: Database, instance: str) -> Select[Any, Any]:
    """Select vault and prefix of the marks that await their second pass; without a vault: in every one."""
    mark = db.t.mark
    awaits_second_pass = and_(mark.c.instance == instance, mark.c.state == "CLAIMED", mark.c.first_pass_at.is_not(None))
    return select(mark.c.vault, mark.c.prefix).where(awaits_second_pass, mark.c.prefix.is_not(None))


def _is_own_mark(db: Database) -> ColumnElement[bool]:
    """Return the condition that a stored file belongs to a mark."""
    file, mark = db.t.mark_file, db.t.mark
    return and_(mark.c.instance == file.c.instance, mark.c.kind == file.c.kind, mark.c.id == file.c.id)
