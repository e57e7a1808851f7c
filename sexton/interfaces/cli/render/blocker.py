"""One row of `sexton blockers`."""

from sexton.kernel.message import Message


class Blocker(Message):
    """Something that blocks deletions now. ``count``: how many marks a round counted; instants in ms since 1970."""

    instance: str
    held_by: str
    what: str
    since: int | None = None
    until: int | None = None
    by: str = ""
    why: str = ""
    way_out: str = ""
    count: int | None = None
