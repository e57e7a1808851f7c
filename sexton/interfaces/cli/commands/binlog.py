"""`sexton binlog journal`: print the journal that followers replay."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.insight.wording import quantity, utc_column
from sexton.interfaces.cli.context import OptionalInstance, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.replication.binlog.model import MAX_COMMIT_SEQ

if TYPE_CHECKING:
    from sexton.replication.journal.model import JournalEntry, Tombstone

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


COMMANDS = {"binlog journal": journal}
