"""`sexton binlog journal`: what followers replay, and who follows."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.commands.binlog import Of
from sexton.interfaces.cli.context import Json, one_instance, opened, recorded
from sexton.interfaces.cli.output import dump, many, show, stamp
from sexton.replication.binlog.model import MOST

if TYPE_CHECKING:
    from sexton.replication.journal.model import Follower, JournalEntry


def journal(
    after: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="Only entries behind this one; default: all there are.")
    ] = None,
    instance: Of = None,
    as_json: Json = False,
) -> None:
    """Print the journal that followers replay, a hundred entries at a time, the oldest first.

    Example: sexton binlog journal --after 100
    """
    from sexton.replication.journal.store import JournalStore

    with opened() as (_, db):
        store, of = JournalStore(db), one_instance(db, instance)
        if after is None:
            with db.read() as c:
                after = store.bounds(c, of)[1]
        page = store.read(of, after)
    if as_json:
        dump(page.model_dump(mode="json"))
        return
    none = f"the journal of {of} has no entry behind {after}; the last was {page.head}"
    rows = [(e.seq, stamp(e.at, "seconds"), *_said(e)) for e in page.entries]
    show("" if rows else none, ("entry", "at (UTC)", "op", "what"), rows)
    if page.entries and page.entries[-1].seq < page.head:
        typer.echo(f"it ends at {page.head}; the next: --after {page.entries[-1].seq}")


def followers(instance: Of = None, as_json: Json = False) -> None:
    """Print who follows the journal and how far each is, the slowest first. Entries that one lacks are kept for it.

    Example: sexton binlog followers
    """
    from sexton.replication.journal.store import JournalStore

    with opened() as (_, db):
        store, of = JournalStore(db), one_instance(db, instance)
        found, head = store.followers(of), store.head(of)
    if as_json:
        dump([f.model_dump(mode="json") | {"behind": max(0, head - f.applied)} for f in found])
        return
    columns = ("follower", "applied", "entries behind", "heard of (UTC)", "state")
    show("" if found else f"nobody follows the journal of {of}", columns, [_follower(f, head) for f in found])


def follower_remove(
    name: Annotated[str, typer.Argument(help="Its name.")],
    instance: Of = None,
) -> None:
    """Keep no entries for a follower any more: it is gone for good. One that comes back may have to begin anew.

    Example: sexton binlog follower-remove fe-3
    """
    from sexton.kernel.errors import BadInput
    from sexton.replication.journal.store import JournalStore

    with opened() as (_, db):
        of = one_instance(db, instance)
        with recorded(db, "binlog follower-remove", of, name):
            if not JournalStore(db).forget(of, name):
                raise BadInput(f"nobody follows the journal of {of} as {name}; see: sexton binlog followers")
    typer.echo(f"entries are not kept for follower {name} any more")


def _follower(its: "Follower", head: int) -> tuple[object, ...]:
    state = "ok" if its.lost_at is None else f"LOST since {stamp(its.lost_at)}: nothing is kept for it"
    return its.name, its.applied, f"{max(0, head - its.applied):,}", stamp(its.seen_at), state


def _said(entry: "JournalEntry") -> tuple[str, str]:
    """Return an entry's op and what it says, in words."""
    from collections import Counter

    from sexton.replication.journal.model import Op, reports, tombstones

    if entry.op == Op.GC_BINLOG:
        told = []
        for its in tombstones(entry.body):
            names = ", ".join((its.tables or ())[:3]) + (" …" if len(its.tables or ()) > 3 else "")
            what = f"{its.db}/{names}" if names and not its.database else its.db
            told.append(f"{what} dropped" if its.dropped else f"{what} gone up to {its.seq}")
        return "GC_BINLOG", "; ".join(told)
    if entry.op in (Op.BACKEND_REPLICAS_INFO, Op.BACKEND_TABLETS_INFO):
        backend, found = reports(entry.op, entry.body)
        kinds = Counter(its.kind for its in found)
        first = f", e.g. tablet {found[0].tablet}" if found else ""
        counted = ", ".join(f"{n:,} {kind}" for kind, n in sorted(kinds.items()))
        return Op(entry.op).name, f"backend {backend}: {counted}{first}"
    return str(entry.op), many(len(entry.body), "field")
