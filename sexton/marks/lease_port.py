"""The port of leases, with the errors that make a round stop or wait."""

from typing import Any, Protocol

from sexton.kernel.errors import SextonError
from sexton.marks.lease import Lease


class LeaseBusy(SextonError):
    """Another run has the lease of this instance; it will release it, or the lease will expire."""

    passes = True


class NoFreeSlot(SextonError):
    """``recycle_concurrency`` instances are being worked on; a slot becomes free when one of them ends."""

    passes = True


class LeaseLost(SextonError):
    """The lease has expired or belongs to a newer epoch; stop before the next claim, page or removal."""


class Leases(Protocol):
    """The leases of a deployment: at most one run works on an instance."""

    def acquire(self, instance: str, job: str, owner: str) -> Lease:
        """Acquire the lease; the same owner keeps its epoch while the lease is valid.

        Raises:
            LeaseBusy: another run has it.
            NoFreeSlot: as many leases are in use as are allowed at once.
        """
        ...

    def renew(self, lease: Lease) -> None:
        """Verify and prolong the lease, or raise ``LeaseLost``."""
        ...

    def verify(self, lease: Lease, connection: Any) -> None:
        """Check the lease inside a transaction of its user, or raise ``LeaseLost``."""
        ...

    def free(self, lease: Lease) -> None:
        """Release the lease."""
        ...
