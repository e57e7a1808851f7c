"""Why a journal cannot be read from where somebody stands."""

from sexton.kernel.errors import SextonError


class JournalTrimmed(SextonError):
    """Entries behind that one are gone: nobody had asked for them for long, or all who follow had them."""

    name = "TOO_OLD"

    def __init__(self, instance: str, after: int, first: int) -> None:
        super().__init__(
            f"the journal of {instance} begins at {first}, and entry {after + 1} was asked for; begin anew with: "
            f"GET /v1/journal/snapshot"
        )
        self.first = first


class FollowerAhead(SextonError):
    """The follower has entries that this journal never had."""

    name = "JOURNAL_AHEAD"

    def __init__(self, instance: str, after: int, head: int) -> None:
        super().__init__(
            f"the journal of {instance} ends at {head}, and what comes after {after} was asked for: this database was "
            "restored from an older copy, or it is another's; begin anew with: GET /v1/journal/snapshot"
        )
