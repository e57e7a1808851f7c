"""How work hears that it must stop."""

from typing import Protocol

from sexton.kernel.errors import SextonError
from sexton.operators.controls.model import Halt


class Halted(SextonError):
    """An operator's stop, a list or a window keeps the instance: finish the page and free the lease."""

    def __init__(self, halt: Halt) -> None:
        super().__init__(str(halt))
        self.halt = halt


class NotEnabled(SextonError):
    """The instance only observes; nothing of it may be deleted."""


class Gate(Protocol):
    """What is said now about an instance; asked before every page, no answer is older than 5 s."""

    def check(self, instance: str) -> frozenset[str]:
        """Return the vault whitelist (empty: every vault), or raise ``Halted`` or ``NotEnabled``."""
        ...
