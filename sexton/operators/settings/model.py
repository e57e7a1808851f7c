"""One setting of the database, as a value."""

from sexton.kernel.message import Message


class StoredSetting(Message):
    """A setting that an operator changed, in all instances (``instance`` is empty) or in one.

    ``value`` is text, as in an environment variable; ``set_at`` is in ms since 1970.
    """

    instance: str
    key: str
    value: str
    set_at: int
    set_by: str = ""
    reason: str = ""
