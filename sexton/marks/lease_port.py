"""What work under a lease needs of its store, and how it hears that it must stop or wait."""

from typing import Protocol

from sexton.kernel.errors import SextonError
from sexton.marks.lease import Lease


class LeaseBusy(SextonError):
    """Another holder works on this instance, and its lease has not expired: it will be freed, or expire."""

    passes = True


class NoFreeSlot(SextonError):
    """``recycle_concurrency`` instances are being worked on; one of them will end."""

    passes = True


class LeaseLost(SextonError):
    """The lease has expired or belongs to a newer epoch; stop before the next claim, page or removal."""


class Leases(Protocol):
    """Who works on an instance."""

    def acquire(self, instance: str, job: str, owner: str) -> Lease:
        """Take the lease; the same owner keeps its epoch while the lease is valid.

        Raises:
            LeaseBusy: somebody else holds it.
            NoFreeSlot: as many leases are held as are allowed at once.
        """
        ...

    def renew(self, lease: Lease) -> None:
        """Prove the lease and prolong it, or raise ``LeaseLost``."""
        ...

    def free(self, lease: Lease) -> None:
        """Give the lease back."""
        ...
