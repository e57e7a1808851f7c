"""The register of protections as the registrar and the rounds see it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sexton.protection.filter import Filter
from sexton.protection.model import Item, Protection, ProtectionEnd, Sealed


class Register(Protocol):
    """Protections, kept; refusals are ``protection.errors``."""

    def open(self, wanted: Protection, seconds: int | None, filter_: Filter | None = None) -> Protection:
        """Open a registration, or return the same one that is there."""
        ...

    def find(self, instance: str, job: str) -> Protection:
        """Return a job's protection."""
        ...

    def add(
        self, instance: str, job: str, number: int, items: Sequence[Item], *, of: int | None = None
    ) -> Sealed | None:
        """Store the rows of one chunk; return what was told of it before, if anything.

        ``of``, here and below: the id of the registration that is meant, as a job may have had one before.
        """
        ...

    def part(self, instance: str) -> None:
        """From now on every claim sees the rows that are committed."""
        ...

    def claimed(
        self, instance: str, job: str, items: Sequence[Item], *, of: int | None = None
    ) -> Sequence[tuple[str, str]]:
        """Return (vault, key) of what is being deleted of the objects, and below the prefixes."""
        ...

    def claimed_files(self, instance: str) -> Iterator[Sequence[tuple[str, str]]]:
        """Yield (vault, key) of all that is being deleted."""
        ...

    def tell(self, instance: str, job: str, number: int, told: Sealed, *, of: int | None = None) -> Sealed:
        """Store what came of a chunk."""
        ...

    def told(self, instance: str, job: str, *, of: int | None = None) -> Mapping[int, Sealed | None]:
        """Return what was told of each chunk, by number."""
        ...

    def seal(self, instance: str, job: str, sealed: Sealed, *, of: int | None = None) -> Protection:
        """Make it an active protection."""
        ...

    def give_up(self, registration: Protection, why: str) -> bool:
        """End a registration that nobody has sealed meanwhile."""
        ...

    def release(self, instance: str, job: str, why: str = "") -> Protection:
        """End it at once."""
        ...

    def end_due(self, instance: str) -> Mapping[str, ProtectionEnd]:
        """End what is overdue, or finished and past."""
        ...
