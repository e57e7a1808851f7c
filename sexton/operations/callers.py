"""Who sends an operation, and what it does, as the log of calls has it."""

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from sexton.operators.access.model import Grant


class Deed(NamedTuple):
    """What a request does, as the log of calls has it, and the grant that it needs.

    ``instance``: empty if the object belongs to none, or is unknown; then the token must cover all. ``subject``: the
    object of the action. ``job``, ``node``: see ``access.policy.check``. ``is_named``: whether the request itself names
    the instance; otherwise a refusal does not tell whether there is such an object. ``unknown``: see ``Logged``.
    """

    action: str
    instance: str
    grant: Grant
    subject: str = ""
    reason: str = ""
    job: str | None = None
    node: str | None = None
    is_named: bool = True
    unknown: str = ""


class Asking(Protocol):
    """Who asks: a command's user, or the sender of a request."""

    @property
    def name(self) -> str:
        """The caller in the log of calls."""

    @property
    def node(self) -> str:
        """The node that the caller is; empty: it is none."""

    def selected(self, instance: str | None) -> str:
        """Return the named instance, else that of the caller, which may be ``EVERY_INSTANCE``."""

    def permits(self, grant: Grant, instance: str) -> bool:
        """Return whether the caller has the grant itself, and not only for its own job or node."""

    def require(self, grant: Grant, instance: str, *, job: str | None = None, node: str | None = None) -> None:
        """Raise ``Forbidden`` unless the caller has the grant in the instance."""

    def require_log(self, grant: Grant, instance: str, consumers: tuple[str, ...]) -> None:
        """Raise ``Forbidden`` if the caller is a job for which no operator registered this log; see ``check_log``."""

    def read(self, deed: Deed) -> None:
        """Raise ``Forbidden`` unless the caller may do what changes nothing."""

    def recorded(self, deed: Deed, *, keeps: bool = False, routine: bool = False) -> AbstractContextManager[None]:
        """Check the grant, and record the deed and how it ends; if it is ``routine``, of a program only refusals."""
