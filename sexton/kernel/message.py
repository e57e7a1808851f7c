"""The root of every value that is sent between processes or stored as JSON."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A frozen value that ignores unknown fields, because a replay reads old Temporal histories again."""

    # An answer has all of its fields: clients need not treat those with defaults as absent.
    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class StrictMessage(Message):
    """A value that people and other programs write: it refuses unknown fields, which are mistakes."""

    model_config = ConfigDict(extra="forbid")
