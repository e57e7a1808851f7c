"""Define a way to compare objects with records, and the errors of the capability."""

from collections.abc import Callable, Sequence
from typing import Protocol

from sexton.check.model import CheckOrder, Evidence
from sexton.kernel.errors import NotFound, SextonError
from sexton.storage.model import VaultSpec

Heartbeat = Callable[[], None]
"""Called between pages; raises when the work should stop."""


class TooManyObjects(SextonError):
    """One process lists more objects than the order allows; Spark may compare them."""


class UnknownCheck(NotFound):
    """No check run has this id."""


class UnknownFinding(NotFound):
    """No finding has this number, or it is not open any longer."""


class Compare(Protocol):
    """One way to compare objects with records: in this process, or on Spark."""

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List the vaults, then read the live side, and store each disagreement as a finding; may be repeated."""
        ...
