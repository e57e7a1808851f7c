"""What the audit says of one object."""

from typing import NamedTuple


class AuditRow(NamedTuple):
    """One object and what became of it: its mark, the batch and round that tried it, and why not, if not.

    ``bytes`` is None where nobody measured it; ``at`` is in ms since 1970.
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
