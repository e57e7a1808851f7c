"""`sexton binlog journal`: print the journal that followers replay, and list or remove followers."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.commands.binlog import InstanceOption
from sexton.interfaces.cli.context import OptionalInstance, log_call, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, emit_list, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import quantity, utc_column
from sexton.replication.binlog.model import MAX_COMMIT_SEQ

if TYPE_CHECKING:
    from sexton.replication.journal.model import Follower, JournalEntry, Tombstone

MAX_TABLES = 3


def journal(
    after: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_COMMIT_SEQ, help="Only entries after this one; default: all that exist."),
    ] = None,
    instance: OptionalInstance = None,
) -> None:
    """Print the journal that followers replay.

    A hundred entries at a time, the oldest first.

    Example: sexton binlog journal --after 100
    """
    with open_database() as service:
        store, name = service.stores.binlogs.journal, one_instance(service, instance)
        if after is None:
            with service.db.read() as c:
                after = store.bounds(c, name)[1]
        page = store.read(name, after)
    if wants_json():
        emit(page)
        return
    none = f"the journal of {name} has no entry after {after}; the last was {page.head}"
    rows = [(e.seq, utc_column(e.at, "seconds"), *_op_and_summary(e)) for e in page.entries]
    show_table("" if rows else none, ("entry", "at (UTC)", "op", "what"), rows)
    if page.entries and page.entries[-1].seq < page.head:
        typer.echo(f"it ends at {page.head}; the next: --after {page.entries[-1].seq}")


def followers(instance: OptionalInstance = None) -> None:
    """Print the followers of the journal, the slowest first. Entries that a follower still needs are kept for it.

    Example: sexton binlog followers
    """
    with open_database() as service:
        store, name = service.stores.binlogs.journal, one_instance(service, instance)
        rows, head = store.followers(name), store.head(name)
    if wants_json():
        emit_list([stable(f) | {"behind": max(0, head - f.applied)} for f in rows])
        return
    columns = ("follower", "applied", "entries behind", "last progress (UTC)", "state")
    none = f"the journal of {name} has no followers"
    show_table("" if rows else none, columns, [_follower_row(f, head) for f in rows])


def remove_follower(
    name: Annotated[str, typer.Argument(help="Its name.")],
    instance: InstanceOption = None,
) -> None:
    """Remove a follower that never returns.

    No entries are kept for it. If it returns, it may have to start over.

    Example: sexton binlog remove-follower fe-3
    """
    with open_database() as service:
        instance_name = one_instance(service, instance)
        with log_call(service, "binlog remove-follower", instance_name, name):
            service.stores.binlogs.journal.forget(instance_name, name)
    typer.echo(f"follower {name} is removed: entries are no longer kept for it")


def _follower_row(follower: "Follower", head: int) -> tuple[object, ...]:
    state = "ok"
    if follower.lost_at is not None:
        state = f"LOST since {utc_column(follower.lost_at)}: no entries are kept for it"
    behind = f"{max(0, head - follower.applied):,}"
    return follower.name, follower.applied, behind, utc_column(follower.seen_at), state


def _op_and_summary(entry: "JournalEntry") -> tuple[str, str]:
    """Return an entry's op and a summary of its body."""
    from sexton.replication.journal.model import Op, parse_outcomes, parse_tombstones

    if entry.op == Op.GC_BINLOG:
        return "GC_BINLOG", "; ".join(_tombstone(t) for t in parse_tombstones(entry.body))
    if entry.op in (Op.BACKEND_REPLICAS_INFO, Op.BACKEND_TABLETS_INFO):
        backend, entries = parse_outcomes(entry.op, entry.body)
        kinds = Counter(report.kind for report in entries)
        counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
        example = f", e.g. tablet {entries[0].tablet}" if entries else ""
        return Op(entry.op).name, f"backend {backend}: {counts}{example}"
    return str(entry.op), quantity(len(entry.body), "field")


def _tombstone(tombstone: "Tombstone") -> str:
    tables = tombstone.tables or ()
    names = ", ".join(tables[:MAX_TABLES]) + (" …" if len(tables) > MAX_TABLES else "")
    log = f"{tombstone.db}/{names}" if names and not tombstone.database else tombstone.db
    return f"{log} dropped" if tombstone.dropped else f"{log} deleted up to {tombstone.seq}"
