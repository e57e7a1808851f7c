"""Print marks."""

from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import human_bytes, utc_column

if TYPE_CHECKING:
    from sexton.insight.views import ListedMark, MarkPage

MARK_COLUMNS = ("mark", "state", "marked (UTC)", "due (UTC)", "parent", "files", "bytes")


def show_page(page: "MarkPage", nothing: str) -> None:
    """Print one page of marks; ``nothing``: what is said where it has none."""
    if wants_json():
        emit_list(page.marks, more=bool(page.next), next=page.next)
        return
    show_table("" if page.marks else nothing, MARK_COLUMNS, [mark_row(m) for m in page.marks])
    if page.next:
        typer.echo(f"the next marks: --after '{page.next}'")


def mark_row(m: "ListedMark") -> tuple[object, ...]:
    """Return a mark as a row of a table: what it is, since when, and which files it names."""
    state = f"{m.state}, {m.quarantined}" if m.quarantined else m.state
    place = m.vault or ""
    if m.prefix is not None:
        place = f"{place}/{m.prefix}"
    elif m.keys:
        place = f"{place}: {m.keys:,} keys" if m.keys > 1 else f"{place}: 1 key"
    due = "no retention" if m.due_at is None else utc_column(m.due_at)
    return f"{m.kind}/{m.mark}", state, utc_column(m.marked_at), due, m.parent or "-", place, human_bytes(m.bytes)
