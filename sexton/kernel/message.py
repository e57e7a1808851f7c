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


UNIT_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def in_seconds(value: object) -> object:
    """Return the seconds of ``30m``, ``12h``, ``7d`` or ``2w``; another value as it is."""
    match = re.fullmatch(r"([0-9]{1,9})([mhdw])", value) if isinstance(value, str) else None
    return int(match[1]) * UNIT_SECONDS[match[2]] if match else value
