"""Where files are deleted, as the steps of a range see it: by threads of this process, or by executors."""

from types import TracebackType
from typing import Protocol, Self

from sexton.marks.model import WriteToken
from sexton.recycle.pipeline.active_lease import ActiveLease


class Deletion(Protocol):
    """One go through the undone files of a batch, while more of them are claimed.

    What raises there (a lost lease, a halt, a database that does not answer) raises at the next call.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Stop, unless it has ended."""

    def claimed(self, to: int) -> None:
        """Say that all files of the batch up to this one are claimed now, or never will be."""
        ...

    def wait_for(self, to: int) -> None:
        """Wait until every file up to this one was tried, or is left alone."""
        ...

    def tried(self, to: int) -> bool:
        """Tell whether every file up to this one was tried, or is left alone."""
        ...

    @property
    def tried_to(self) -> int:
        """Return the number of a file, about: up to it all were tried, or are left alone."""
        ...

    def logged(self, after: int, to: int) -> bool:
        """Tell whether the sweep itself told the audit of all it tried of these."""
        ...

    def finish(self) -> None:
        """Wait until all that was claimed is tried; nothing more will be."""
        ...


class Deleter(Protocol):
    """Where files are deleted: by threads of this process, or by executors."""

    def begin(self, token: WriteToken, active_lease: ActiveLease) -> Deletion:
        """Return a sweep through the batch, to be used as a context: it runs beside it until it is told all."""
        ...
