"""Store file lists as rows, and read those that may contain what is asked for.

A row is read whole: which marks, vaults and keys are in it is known only when it is decoded. Its smallest and largest
key tell which rows need not be read.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from sexton.database.engine import Database
from sexton.database.rows import beyond
from sexton.marks.file_list import FileList, FileSums
from sexton.marks.file_results import DamagedList
from sexton.marks.model import MarkState, Ref, Span
from sexton.marks.sql.rows import refs_in

log = logging.getLogger(__name__)
LISTS_AT_ONCE = 4
"""Rows fetched by one statement, each of up to some 100 kB."""


def in_span(db: Database, span: Span) -> ColumnElement[bool]:
    """Return the condition that a list has numbers of a span."""
    t = db.t.file_list
    return and_(t.c.batch == span.batch, t.c.last > span.after, t.c.first <= span.to)


def of_instance(db: Database, instance: str) -> ColumnElement[bool]:
    """Return the condition that a list is of an instance."""
    return db.t.file_list.c.instance == instance


def may_have_keys(db: Database, smallest: str, largest: str) -> ColumnElement[bool]:
    """Return the condition that a list may have keys from the smallest to the largest."""
    t = db.t.file_list
    return and_(t.c.first_key <= largest, t.c.last_key >= smallest)


def may_have_prefix(db: Database, prefix: str) -> ColumnElement[bool]:
    """Return the condition that a list may have keys with a prefix; never LIKE: a prefix may contain % and _."""
    t = db.t.file_list
    return and_(func.substr(t.c.first_key, 1, len(prefix)) <= prefix, t.c.last_key >= prefix)


def read_lists(
    db: Database,
    c: Connection,
    *conditions: ColumnElement[bool],
    lock: bool = False,
    at_once: int = LISTS_AT_ONCE,
    skip_damaged: bool = False,
) -> Iterator[FileList]:
    """Yield the lists that meet the conditions, in the order of their batches and numbers.

    ``lock``: for an update in the same transaction; ``at_once``: lists in memory; ``skip_damaged``: log damaged lists
    and leave them out, where files that are left out are neither deleted nor settled.

    Raises:
        DamagedList: the bytes of a list were changed.
    """
    t = db.t.file_list
    last_batch, last_file = -1, -1
    while True:
        is_later = beyond((t.c.batch, t.c.last), (last_batch, last_file))
        query = select(t.c.batch, t.c.first, t.c.last, t.c.files, t.c.results).where(*conditions, is_later)
        query = query.order_by(t.c.batch, t.c.last).limit(at_once)
        rows = c.execute(query.with_for_update() if lock else query).all()
        for row in rows:
            try:
                files = FileList.decode(row.batch, row.first, row.files, row.results)
            except DamagedList as e:
                if not skip_damaged:
                    raise
                log.warning("%s", e)
            else:
                yield files
        if len(rows) < at_once:
            return
        last_batch, last_file = rows[-1].batch, rows[-1].last


def add_list(db: Database, c: Connection, instance: str, files: FileList) -> None:
    """Store a new list."""
    row = {
        "batch": files.batch,
        "first": files.first,
        "last": files.last,
        "instance": instance,
        "first_key": min(files.keys),
        "last_key": max(files.keys),
        "files": files.encode_files(),
        "results": files.results.encode(),
    }
    c.execute(insert(db.t.file_list).values(**row))


def save_results(db: Database, c: Connection, files: FileList) -> None:
    """Store the results of a list that this transaction has locked; remove the list when nothing is left of it."""
    t = db.t.file_list
    is_list = and_(t.c.batch == files.batch, t.c.last == files.last)
    if files.results.all_dropped:
        c.execute(delete(t).where(is_list))
    else:
        c.execute(update(t).where(is_list).values(results=files.results.encode()))


def drop_files(
    db: Database,
    c: Connection,
    span: Span,
    refs: Iterable[Ref],
    codes: Sequence[int] | None = None,
    *,
    skip_damaged: bool = False,
) -> None:
    """Take files of marks out of the lists of a span: all, or those with one of the codes."""
    dropped, t = frozenset(refs), db.t.file_list
    if not dropped:
        return
    for files in read_lists(db, c, in_span(db, span), skip_damaged=skip_damaged):
        if dropped & files.refs:  # only these are locked: others may be written now, by transactions with other locks
            for locked in read_lists(db, c, t.c.batch == files.batch, t.c.last == files.last, lock=True):
                if locked.drop(dropped, codes):
                    save_results(db, c, locked)


def damage_of(batch: int, row: Any) -> DamagedList | None:
    """Return why a row of a batch cannot be decoded; None: it can be. Pure."""
    try:
        FileList.decode(batch, row.first, row.files, row.results)
    except DamagedList as e:
        return e
    return None


def remove_damaged_lists(db: Database, c: Connection, span: Span) -> None:
    """Remove the damaged lists of a span that no mark in its first pass needs.

    A mark after its first pass needs none: it is listed again. Only counts of what was deleted are lost. A mark that
    was claimed with its parent has no files of its own.
    """
    t, mark = db.t.file_list, db.t.mark
    for row in c.execute(select(t.c.first, t.c.last, t.c.files, t.c.results).where(in_span(db, span))).all():
        if damage := damage_of(span.batch, row):
            of_batch = and_(mark.c.batch == span.batch, mark.c.state == MarkState.CLAIMED)
            overlaps = and_(mark.c.files_after < row.last, mark.c.last_file >= row.first)
            in_first_pass = and_(mark.c.first_pass_at.is_(None), mark.c.absorbed.is_(False))
            if c.execute(select(mark.c.id).where(of_batch, overlaps, in_first_pass).limit(1)).first() is None:
                log.error("batch %d, files %d to %d are forgotten: %s", span.batch, row.first, row.last, damage)
                c.execute(delete(t).where(t.c.batch == span.batch, t.c.last == row.last))


def find_spans(db: Database, c: Connection, instance: str, refs: Iterable[Ref]) -> Sequence[Span]:
    """Return where the files of these claimed marks are: one span for each chunk that was claimed.

    The lists of other chunks, which may be damaged, are not in them. The marks are selected by primary key alone: with
    further conditions the planner may read all marks of a batch.
    """
    mark = db.t.mark
    columns = (mark.c.batch, mark.c.files_after, mark.c.last_file)
    by_chunk = select(*columns, mark.c.state).distinct().where(mark.c.instance == instance, refs_in(mark, refs))
    rows = c.execute(by_chunk.order_by(*columns)).all()
    return [Span(batch, after, to) for batch, after, to, state in rows if state == MarkState.CLAIMED]


def sum_files(
    db: Database, c: Connection, spans: Iterable[Span], refs: Set[Ref], *, skip_damaged: bool = False
) -> dict[Ref, list[FileSums]]:
    """Return sums over the files of these marks in some spans, by vault and outcome."""
    total: dict[Ref, list[FileSums]] = {}
    for span in spans:
        for files in read_lists(db, c, in_span(db, span), at_once=1, skip_damaged=skip_damaged):
            for ref, sums in files.sums(refs).items():
                total.setdefault(ref, []).extend(sums)
    return total
