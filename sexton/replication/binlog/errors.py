"""What binlogs refuse."""

from sexton.kernel.errors import SextonError


class UnknownLog(SextonError):
    """Nobody keeps that log."""

    name = "NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no binlog of {name}, or it is not enabled; see: sexton binlog list")


class UnknownConsumer(SextonError):
    """Nobody has registered it."""

    name = "NOT_FOUND"

    def __init__(self, name: str, log: str) -> None:
        super().__init__(f"no consumer {name} of {log} is registered; see: sexton binlog consumers")


class RecordsTrimmed(SextonError):
    """What was asked for is gone. ``first``: the lowest number that a record can have now."""

    name = "TOO_OLD"

    def __init__(self, log: str, after: int, first: int) -> None:
        super().__init__(
            f"records of {log} behind {after} are gone up to {first - 1}: the first available is {first}; copy the "
            "data anew, and go on from there"
        )
        self.first = first


class OutOfOrder(SextonError):
    """A record came behind a later one: who has read that one would never see it."""
