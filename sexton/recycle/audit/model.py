"""The row of the log of deletions."""

from typing import NamedTuple


class AuditRow(NamedTuple):
    """One object, the outcome of its deletion and the reason of a failure, its mark, and the batch and round.

    ``bytes`` is None where the size is unknown; ``at`` is in ms since 1970.
    """

    at: int
    instance: str
    round: int
    batch: int
    seq: int
    kind: str
    id: str
    vault: str
    key: str
    bytes: int | None
    outcome: str
    reason: str
