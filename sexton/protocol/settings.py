"""Settings in force, and what another value of one of them would change."""

import hashlib
from typing import Annotated

from pydantic import Field, StringConstraints

from sexton.kernel.message import Message
from sexton.protocol.body import PRINTABLE, Body
from sexton.recycle.planning.model import Shift

__all__ = ["NewSetting", "SettingChange", "SettingList", "Shift", "ShownSetting"]


class ShownSetting(Message):
    """A setting; passwords are masked.

    ``mutable``: whether it can be changed while workers run. ``overrides``: the value that the database replaces.
    """

    key: str
    value: str
    source: str
    unit: str
    bound: str
    mutable: bool
    overrides: str


class SettingList(Message):
    """Settings in the order of their sections. ``ignored``: why stored values are not in force."""

    settings: tuple[ShownSetting, ...]
    ignored: tuple[str, ...]


class NewSetting(Body):
    """Another value, written as in an environment variable."""

    value: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100, pattern=PRINTABLE)]
    reason: Annotated[str, Field(max_length=500, pattern=PRINTABLE, description="other operators read it")] = ""


class SettingChange(Message):
    """What another value changes: what becomes due or no longer due.

    ``loosens``: the safeguard that gets weaker. ``replaces``: the value that the database has now; empty: none.
    """

    key: str
    shifts: tuple[Shift, ...]
    loosens: str
    replaces: str = ""

    @property
    def fingerprint(self) -> str:
        """Return what an operator agrees to: it changes with the settings, and not with each new mark."""
        moved = sorted((shift.instance, shift.kind, shift.before, shift.after) for shift in self.shifts)
        return hashlib.sha256(repr((self.key, moved, self.loosens, self.replaces)).encode()).hexdigest()[:32]

    @property
    def deletes_more(self) -> bool:
        """Return whether more would be deleted, or with fewer questions."""
        return bool(self.loosens) or any(shift.more and shift.marks for shift in self.shifts)
