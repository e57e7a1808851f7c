"""Print marks."""

from typing import TYPE_CHECKING

from sexton.insight.wording import human_bytes, utc_column

if TYPE_CHECKING:
    from sexton.insight.views import ListedMark

MARK_COLUMNS = ("mark", "state", "marked (UTC)", "due (UTC)", "parent", "files", "bytes")


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
