"""How running work learns that it must stop."""

from typing import Protocol

from sexton.kernel.errors import Conflict
from sexton.operators.controls.model import Halt


class Halted(Conflict):
    """A stop, a list or a window blocks the instance: finish the page and release the lease."""

    def __init__(self, halt: Halt) -> None:
        super().__init__(str(halt))
        self.halt = halt


class NotEnabled(Conflict):
    """The instance is in observe mode: nothing in it may be deleted."""


class Gate(Protocol):
    """The current controls of an instance. Checked before every page; an answer is at most 5 s old."""

    def check(self, instance: str) -> frozenset[str]:
        """Return the vault whitelist (empty: every vault), or raise ``Halted`` or ``NotEnabled``."""
        ...
