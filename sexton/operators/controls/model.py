"""Controls, and the halts that follow from them, as values."""

from enum import StrEnum

from pydantic import Field

from sexton.kernel.errors import Conflict
from sexton.kernel.message import Message

ALL = "*"
"""The name under which a stop means every instance."""


class ControlKind(StrEnum):
    """The kinds of controls. ``vault_whitelist`` is the seed's ``recycler_storage_vault_white_list``."""

    STOP = "stop"
    BLACKLIST = "blacklist"
    WHITELIST = "whitelist"
    VAULT_WHITELIST = "vault_whitelist"
    WINDOW = "window"


HALTS = tuple(kind for kind in ControlKind if kind is not ControlKind.VAULT_WHITELIST)
"""The kinds that halt whole instances, in order of precedence."""


class ListName(StrEnum):
    """The lists, as people and programs name them; see ``sexton.operations.list_names``."""

    BLACKLIST = "blacklist"
    WHITELIST = "whitelist"
    VAULTS = "vaults"
    WINDOWS = "windows"


class Control(Message):
    """One control. ``name`` is an instance, ``*``, a vault (``VAULT`` or ``INSTANCE/VAULT``), or a window's text.

    ``since`` is in ms since 1970; None: the control is in the settings of this process.
    """

    kind: ControlKind
    name: str
    reason: str = ""
    set_by: str = ""
    since: int | None = Field(None, alias="since_at")
    set_at: int | None = None
    """When it was last set, in ms since 1970."""
    first_reason: str = ""
    first_set_by: str = ""


class Halt(Message):
    """Why nothing in an instance may be deleted now; ``until`` in ms since 1970, if that is known.

    ``scope``: the instance that it halts, or ``ALL``; JSON does not have it.
    """

    by: ControlKind
    scope: str = Field("", exclude=True)
    why: str
    todo: str
    since: int | None = Field(None, alias="since_at")
    until: int | None = Field(None, alias="until_at")

    def __str__(self) -> str:
        return f"{self.why}; {self.todo}"


class Halted(Conflict):
    """A stop, a list or a window blocks the instance: finish the page and release the lease."""

    def __init__(self, halt: Halt) -> None:
        super().__init__(str(halt))
        self.halt = halt


class NotEnabled(Conflict):
    """The instance is in observe mode: nothing in it may be deleted."""
