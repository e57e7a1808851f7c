"""The root of every value that is sent between processes or stored as JSON; how people write a length of time."""

import re
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

Row = TypeVar("Row")


class Message(BaseModel):
    """A frozen value that ignores unknown fields, because a replay reads old Temporal histories again.

    The alias of a field is its name in JSON for users, in answers of the API and of commands: ``hold`` for the ``id``
    of a hold, ``since_at`` for an instant (ms since 1970). What Sexton stores, or sends to Temporal, has the field's
    own name, so that older versions read it.
    """

    model_config = ConfigDict(
        frozen=True,
        # An answer has all of its fields: clients need not treat those with defaults as absent.
        json_schema_serialization_defaults_required=True,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # a command uses a tenth of the models that it imports
    )


class StrictMessage(Message):
    """A value that people and other programs write: it refuses unknown fields, which are mistakes."""

    model_config = ConfigDict(extra="forbid", defer_build=False)  # FastAPI reads the schema of a body at once


class Page(Message, Generic[Row]):
    """A part of a list. ``next``: the ``after`` of the page that follows; empty: none does."""

    items: tuple[Row, ...]
    more: bool = False
    next: str = ""


UNITS = {
    "seconds": {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800},
    "bytes": {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
}
"""A unit → the units in which people write it."""


def in_units(value: object, unit: str) -> object:
    """Return the seconds of ``7d`` and the bytes of ``1.5 GiB``; another value as it is."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([A-Za-z]+)", value) if isinstance(value, str) else None
    factor = UNITS.get(unit, {}).get(match[2]) if match else None
    return round(float(match[1]) * factor) if match and factor else value
