"""The errors of binlogs, replicas, journals, and sweeps of backends. All are under ``SextonError``."""

from sexton.kernel.errors import BadInput, Conflict, Ended, NotFound, SextonError, TooMany


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


class UnknownTablet(NotFound):
    """The tablet has no replica, or none on that backend."""

    name = "NOT_FOUND"

    def __init__(self, tablet: str, backend: str = "") -> None:
        where = f" on backend {backend}" if backend else ""
        super().__init__(f"there is no replica of tablet {tablet}{where}; see: sexton replica list")


class UnknownBackend(NotFound):
    """The backend has no replica, and has never reported."""

    name = "NOT_FOUND"

    def __init__(self, backend: str) -> None:
        super().__init__(f"there is no backend {backend}; see: sexton replica backends")


class BootTooHigh(Conflict):
    """A report's boot or sequence is above the ceiling, or its boot is too far above the last one."""


class LastCopy(Conflict):
    """The request would leave a tablet without a healthy replica."""


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


class NoStore(SextonError):
    """There is no meta store in the data directory: perhaps its disk is not mounted. Nothing counts as deleted."""

    passes = True


class OtherBackend(SextonError):
    """The data directory, or an order, belongs to another backend."""


class StoreBusy(SextonError):
    """The node keeps its meta store locked for too long."""

    passes = True


class StoreFault(SextonError):
    """The meta store cannot be read or written at one place; other places may be intact."""

    passes = True


class ApiSilent(SextonError):
    """Sexton's API gives no valid answer; cuts wait there until it does."""

    passes = True


class ApiRefused(SextonError):
    """Sexton's API refuses the request."""
