"""The sections of the settings that say what workers and the API report about themselves: logs and traces."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from config.sections import Web


class LogSection(BaseModel):
    """How much workers and the API log, and in which form."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Annotated[str, Field(pattern="^(console|json)$")] = "console"
    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"


class TelemetrySection(BaseModel):
    """Where workers and commands send traces of workflows and activities."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    otlp_endpoint: Web = ""
