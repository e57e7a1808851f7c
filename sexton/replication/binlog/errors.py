"""Errors that the binlog capability raises."""

from sexton.kernel.errors import Conflict, Ended, NotFound, TooMany


class UnknownLog(NotFound):
    """The log does not exist, is not enabled, or is dropped."""

    name = "NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no binlog of {name}, or it is not enabled; see: sexton binlog list")


class UnknownConsumer(NotFound):
    """The consumer is not registered."""

    name = "NOT_FOUND"

    def __init__(self, name: str, log: str) -> None:
        super().__init__(f"no consumer {name} of {log} is registered; see: sexton binlog consumers")


class TooManyRuns(TooMany):
    """The job has ``MAX_RUNS`` runs as consumers of the log."""


class RecordsTrimmed(Ended):
    """The requested records are cut. ``first``: the lowest number that a record can have now."""

    name = "TOO_OLD"

    def __init__(self, log: str, after: int, first: int) -> None:
        super().__init__(
            f"records of {log} after {after} are deleted up to {first - 1}: the first available is {first}; "
            "make a new full copy of the data, and continue from there"
        )
        self.first = first


class OutOfOrder(Conflict):
    """A record arrived after a later one: a consumer that has read the later one would never see it."""
