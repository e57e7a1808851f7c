"""The port to the register of protections, as the registrar and the rounds use it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sexton.protection.filter import Filter
from sexton.protection.model import Item, Protection, ProtectionEnd, Sealed


class Register(Protocol):
    """The store of protections. Refusals are ``protection.errors``.

    ``registration_id`` is the id of the registration that is meant, as a job may have had another one before.
    """

    def for_job(self) -> "Register":
        """Return the same register for callers that are jobs with tokens of their own."""
        ...

    def open(self, registration: Protection, seconds: int | None, filter_: Filter | None = None) -> Protection:
        """Open a registration, or return the one that the job opened before, if it is the same."""
        ...

    def find(self, instance: str, job: str) -> Protection:
        """Return the protection of a job."""
        ...

    def add(
        self, instance: str, job: str, number: int, items: Sequence[Item], *, registration_id: int | None = None
    ) -> Sealed | None:
        """Store the rows of one chunk; return the result of the chunk if it is stored already."""
        ...

    def wait_for_claims(self, instance: str) -> None:
        """Wait until every claim that could not see the committed rows is committed itself."""
        ...

    def find_claimed(
        self, instance: str, job: str, items: Sequence[Item], *, registration_id: int | None = None
    ) -> Sequence[tuple[str, str]]:
        """Return (vault, key) of the objects, and of those under the prefixes, that are being deleted."""
        ...

    def claimed_files(self, instance: str) -> Iterator[Sequence[tuple[str, str]]]:
        """Yield (vault, key) of all objects that are being deleted, in pages."""
        ...

    def prefixes_of_requests(self, instance: str) -> Sequence[tuple[str, str]]:
        """Return (vault, prefix) under which a request may still delete objects that no row names."""
        ...

    def store_result(
        self, instance: str, job: str, number: int, result: Sealed, *, registration_id: int | None = None
    ) -> Sealed:
        """Store the result of a chunk; return the one that was stored first."""
        ...

    def results(self, instance: str, job: str, *, registration_id: int | None = None) -> Mapping[int, Sealed | None]:
        """Return number of a chunk → its result; None: its objects are still being looked up."""
        ...

    def seal(self, instance: str, job: str, sealed: Sealed, *, registration_id: int | None = None) -> Protection:
        """Make the registration an active protection."""
        ...

    def give_up(self, registration: Protection, why: str) -> bool:
        """End a registration unless it is sealed; return whether it was ended."""
        ...

    def release(self, instance: str, job: str, why: str = "") -> Protection:
        """End a protection at once."""
        ...

    def end_due(self, instance: str) -> Mapping[str, ProtectionEnd]:
        """End the protections that are overdue, or finished and passed by the watermark; return job → reason."""
        ...
