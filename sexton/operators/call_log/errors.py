"""Why the log of calls cannot be used."""

from sexton.kernel.errors import SextonError


class CallLogBroken(SextonError):
    """The row with the newest number and hash is gone: nothing can be appended or verified."""

    def __init__(self) -> None:
        super().__init__(
            "the head of the log of calls was removed from the database, so nothing can be recorded; find out who did "
            "it, then restore the table call_head"
        )
