"""The sections of the settings that say what workers and the API report about themselves: metrics, logs, traces."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from config.sections import Web


class MetricsSection(BaseModel):
    """The address at which a worker answers ``GET /metrics``, ``/livez`` and ``/readyz``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: Annotated[str, Field(pattern=r"^$|^[^\s/]+:[0-9]{1,5}$", json_schema_extra={"unit": "host:port"})] = (
        "127.0.0.1:9464"
    )
    enable_recycler_stats_metrics: bool = True


class LogSection(BaseModel):
    """How much workers and the API log, and in which form."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Annotated[str, Field(pattern="^(console|json)$")] = "console"
    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"


class TelemetrySection(BaseModel):
    """Where workers and commands send traces of workflows and activities."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    otlp_endpoint: Web = ""
