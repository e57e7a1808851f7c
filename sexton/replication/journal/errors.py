"""Errors that reading a journal raises."""

from sexton.kernel.errors import BadInput, Conflict, Ended, NotFound


class JournalTrimmed(Ended):
    """The next entries are deleted: all followers had applied them, or none had asked for them for long."""

    name = "TOO_OLD"

    def __init__(self, instance: str, after: int, first: int) -> None:
        super().__init__(
            f"the journal of {instance} begins with entry {first}, so entry {after + 1} cannot be read; "
            "load a snapshot first: GET /v1/journal/snapshot"
        )
        self.first = first


class UnknownFollower(NotFound, BadInput):
    """The journal has no follower of that name."""

    def __init__(self, instance: str, follower: str) -> None:
        super().__init__(f"the journal of {instance} has no follower {follower}; see: sexton binlog followers")


class FollowerAhead(Conflict):
    """The follower has applied entries that this journal never had."""

    name = "JOURNAL_AHEAD"

    def __init__(self, instance: str, after: int, head: int) -> None:
        super().__init__(
            f"the journal of {instance} ends with entry {head}, so entries after {after} cannot be read: this database "
            "was restored from an older copy, or it is another one; load a snapshot first: GET /v1/journal/snapshot"
        )
