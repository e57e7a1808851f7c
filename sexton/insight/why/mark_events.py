"""Yield the events of one mark, from the transaction that marked it to its row of history."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import and_, select

from sexton.database.engine import Database
from sexton.insight.why import audit
from sexton.insight.why.blocking import WhyContext, blocking_events, keeper_events, unclaimed_events
from sexton.marks.file_list import ListedFile
from sexton.marks.kept import Event
from sexton.marks.model import MarkState, Reason, Ref
from sexton.marks.sql.file_lists import find_spans, in_span, read_lists
from sexton.recycle.audit.store import Claim

LISTED_FILES = 10
"""Files of one claimed mark that are listed; a file that was searched by its key is always listed."""
MAX_PARENTS = 20
"""Parents that are listed; a chain of parents may be a circle."""


def events_of_mark(db: Database, mark_row: Any, names: set[str], context: WhyContext, now: int) -> Iterator[Event]:
    """Yield what happened to a mark, what blocks it now and what will happen next.

    Args:
        db: the database.
        mark_row: a row of ``mark``.
        names: the keys and ids that were searched; a claimed mark's files with these keys are always listed.
        context: further sources.
        now: the database's clock, in ms since 1970.
    """
    yield from _marked_events(db, mark_row)
    if mark_row.state != MarkState.CLAIMED:
        yield from unclaimed_events(db, mark_row, context, now)
    if mark_row.claimed_at:
        batch = mark_row.claimed_batch or mark_row.batch
        with_parent = ", together with its parent, whose files include its own" if mark_row.absorbed else ""
        text = f"claimed in batch {batch}{_round_and_plan(db, batch)}{with_parent}; irrevocable"
        yield Event(at=mark_row.claimed_at, event="claimed", text=text)
        yield from _stored_file_events(db, mark_row, names)
        yield from _audit_events(mark_row, batch, now, names, context)
        yield from blocking_events(db, mark_row, context, now)
    if mark_row.first_pass_at:
        text = f"its {mark_row.objects_gone} files are deleted, {mark_row.bytes_gone} bytes"
        yield Event(at=mark_row.first_pass_at, event="swept", text=text)
        text = "its prefix is listed again; if nothing is found, its record is deleted"
        yield Event(at=mark_row.next_try_at or 0, event="last_look", text=text)
        yield from keeper_events(mark_row, context, claimed=True)
    if mark_row.last_error:
        text = f"last error ({mark_row.failures} failures): {mark_row.last_error}"
        yield Event(event="last_error", text=text)
    if mark_row.quarantined_reason:
        mark = f"{mark_row.instance} {mark_row.kind}/{mark_row.id}"
        text = f"quarantined: {mark_row.quarantined_reason}; to try it again: sexton quarantine retry {mark}"
        if mark_row.quarantined_reason == Reason.CHANGED:
            keep = f"to keep the object that exists now: sexton quarantine discard {mark} --reason TEXT"
            text = f"quarantined: CHANGED; {keep}; to delete it: sexton quarantine retry {mark} --deletes-current"
        yield Event(event="set_aside", text=text)
        if mark_row.quarantined_reason == Reason.DELETE_FAILED and mark_row.next_try_at:
            text = "the first round after this time tries it again"
            yield Event(at=mark_row.next_try_at, event="tried_again", text=text)


def events_of_history(db: Database, history_row: Any, names: set[str], context: WhyContext) -> Iterator[Event]:
    """Yield what happened to a mark whose deletion has ended.

    Args:
        db: the database.
        history_row: a row of ``mark_history``.
        names: the keys and ids that were searched.
        context: further sources.
    """
    vault = f" in vault {history_row.vault}" if history_row.vault else ""
    by = f" by transaction {history_row.owner_txn}" if history_row.owner_txn else ""
    yield Event(at=history_row.marked_at, event="marked", text=f"marked {history_row.kind}{vault}{by}")
    if history_row.parent_id is not None:
        yield Event(at=history_row.marked_at, event="below", text=f"parents: {', '.join(_parents(db, history_row))}")
    if history_row.batch or history_row.discarded is None:
        text = f"claimed in batch {history_row.batch}{_round_and_plan(db, history_row.batch)}"
        yield Event(at=history_row.claimed_at, event="claimed", text=text)
        yield from _audit_events(history_row, history_row.batch, history_row.gone_at, names, context)
    if history_row.discarded is not None:
        text = (
            f"discarded: {history_row.discarded}, its remaining files were left "
            f"({history_row.objects} objects were deleted before)"
        )
        yield Event(at=history_row.gone_at, event="discarded", text=text)
    else:
        objects = f"{history_row.objects} object{'' if history_row.objects == 1 else 's'}"
        text = f"gone: {objects}, {history_row.bytes} bytes, finished in round {history_row.round}"
        yield Event(at=history_row.gone_at, event="gone", text=text)


def _marked_events(db: Database, mark_row: Any) -> Iterator[Event]:
    by = f" by transaction {mark_row.owner_txn}" if mark_row.owner_txn else ""
    keys: Sequence[str] = mark_row._mapping["keys"] or ()
    if not mark_row.vault:
        files = "its owner names its files"
    elif mark_row.prefix:
        files = f"prefix {mark_row.prefix} in vault {mark_row.vault}"
    elif len(keys) == 1:
        files = f"key {keys[0]} in vault {mark_row.vault}"
    else:
        files = f"{len(keys)} keys in vault {mark_row.vault}"
    text = f"marked {mark_row.kind}{by}: {files}, {mark_row.bytes} bytes according to its owner"
    yield Event(at=mark_row.marked_at, event="marked", text=text)
    if mark_row.parent_id is not None:
        yield Event(at=mark_row.marked_at, event="below", text=f"parents: {', '.join(_parents(db, mark_row))}")
    if mark_row.extra_retention_seconds:
        text = f"its extra retention of {mark_row.extra_retention_seconds} s ends: that of its kind starts"
        yield Event(at=mark_row.retention_starts_at, event="extra_retention", text=text)
    if mark_row.expires_at:
        yield Event(at=mark_row.expires_at, event="expires", text=f"its transaction {mark_row.owner_txn} expires")
    if mark_row.state == MarkState.FENCED:
        text = "fenced: its owner refuses to commit it; the next round claims it unless something blocks its deletion"
        yield Event(event="fenced", text=text)


def _parents(db: Database, mark_row: Any) -> list[str]:
    """Return the parents of a mark, the nearest first, as far as rows of marks and history name them."""
    ref = Ref(mark_row.parent_kind, mark_row.parent_id)
    parents = [f"{ref.kind} {ref.id}"]
    with db.read() as c:
        for _ in range(MAX_PARENTS):
            for table in (db.t.mark, db.t.mark_history):
                is_ref = and_(table.c.instance == mark_row.instance, table.c.kind == ref.kind, table.c.id == ref.id)
                row = c.execute(select(table.c.parent_kind, table.c.parent_id).where(is_ref)).one_or_none()
                if row is not None and row.parent_id is not None:
                    break
            else:
                return parents
            ref = Ref(row.parent_kind, row.parent_id)
            parents.append(f"{ref.kind} {ref.id}")
    return parents


def _round_and_plan(db: Database, batch: int) -> str:
    """Return the round that opened a batch and the plan that it applied, as text; empty where SQL has no row of it."""
    b, r, p = db.t.batch, db.t.round, db.t.plan
    joined = b.join(r, r.c.id == b.c.round).outerjoin(p, p.c.id == r.c.plan)
    of_batch = select(b.c.round, r.c.plan, p.c.approved_by).select_from(joined).where(b.c.id == batch)
    with db.read() as c:
        row = c.execute(of_batch).one_or_none()
    if row is None:
        return ""
    if row.plan is None:
        return f", round {row.round}"
    by = f" applied by {row.approved_by}" if row.approved_by else ""
    return f", round {row.round}, plan {row.plan}{by}"


def _stored_file_events(db: Database, mark_row: Any, names: set[str]) -> Iterator[Event]:
    """Yield the outcome so far of a claimed mark's files: those with one of the names, or else the first few."""
    ref = Ref(mark_row.kind, mark_row.id)
    searched: list[ListedFile] = []
    first: list[ListedFile] = []
    total = 0
    with db.read() as c:
        for span in find_spans(db, c, mark_row.instance, [ref]):
            for files in read_lists(db, c, in_span(db, span), at_once=1, skip_damaged=True):
                for file in files.files({ref}):
                    total += 1
                    if file.key in names:
                        searched.append(file)
                    if len(first) < LISTED_FILES:
                        first.append(file)
    if not searched and total > len(first):
        yield Event(event="files", text=f"{total:,} files are being deleted, among them:")
    for file in searched or first:
        reason = f": {file.reason}" if file.reason else ""
        text = f"file {file.key} in vault {file.vault}: {file.outcome or 'not tried yet'}{reason}"
        yield Event(event=f"file_{file.outcome or 'untried'}", text=text)


def _audit_events(row: Any, batch: int, until: int, names: set[str], context: WhyContext) -> Iterator[Event]:
    """Yield what the deletion log has of a mark that was claimed in a batch; ``until``: ms since 1970."""
    kinds = frozenset(filter(None, (row.kind, row.parent_kind)))
    return audit.events(context.audit, Claim(row.instance, kinds, batch, row.claimed_at, until), names)
