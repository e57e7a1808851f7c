"""The root of every value that travels between processes or into stored JSON."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A frozen value that ignores what it does not know: old histories are read again on replay."""

    model_config = ConfigDict(frozen=True)
