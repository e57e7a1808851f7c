"""The sections of the settings, each with its keys, units, defaults and floors; see ``config.settings``."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from sexton.kernel.errors import BadInput
from sexton.operators.controls.policy import parse_window

RETENTION_CEILING = 3650 * 86_400
"""Ten years, in seconds: what is larger is a typing error."""


def check_database(url: str) -> str:
    for plain in ("postgresql://", "postgres://"):
        if url.startswith(plain):
            url = "postgresql+psycopg://" + url.removeprefix(plain)
    if not re.match(r"sqlite:///.|postgresql\+psycopg://.", url):
        raise ValueError("use sqlite:///PATH or postgresql://USER@HOST/NAME")
    return url


def check_deployment(text: str) -> str:
    if text and not re.fullmatch(r"[a-z0-9][a-z0-9-]{2,62}", text):
        raise ValueError("use 3 to 63 of a-z, 0-9 and '-', the first no '-'; `sexton init` prints a new one")
    return text


def _web(url: str) -> str:
    if url and not re.fullmatch(r"https?://[^/\s]+\S*", url):
        raise ValueError("use http://HOST:PORT or https://HOST, or leave it empty")
    return url


def _audit(url: str) -> str:
    if url and not re.fullmatch(r"s3://[^/\s]+(/\S*)?|file:///\S*|/\S*", url):
        raise ValueError("use s3://BUCKET/PREFIX or file:///DIRECTORY, or leave it empty: in the vault itself")
    return url


def _parts(separator: str) -> BeforeValidator:
    """Let a variable of the environment carry a list."""
    return BeforeValidator(lambda v: [p.strip() for p in v.split(separator) if p.strip()] if isinstance(v, str) else v)


def _windows(texts: list[str]) -> list[str]:
    for text in texts:
        try:
            parse_window(text)
        except BadInput as e:
            raise ValueError(str(e)) from e
    return texts


def _librdkafka(given: Any) -> Any:
    """Take numbers and truth values as well, and the names of variables, which cannot have dots: those win."""
    if not isinstance(given, dict):
        return given
    words = {
        k: str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int) else v for k, v in given.items()
    }
    plain = {k: v for k, v in words.items() if "_" not in k}
    return plain | {k.replace("_", "."): v for k, v in words.items() if "_" in k}


Web = Annotated[str, AfterValidator(_web)]
Names = Annotated[list[str], _parts(",")]
Windows = Annotated[list[str], _parts(";"), AfterValidator(_windows)]


def _seconds(floor: int) -> Any:
    return Field(ge=floor, le=RETENTION_CEILING, json_schema_extra={"unit": "seconds"})


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TemporalSection(_Section):
    """The Temporal service that runs the workflows."""

    address: Annotated[str, Field(pattern=r"^[^\s/]+:[0-9]{1,5}$", json_schema_extra={"unit": "host:port"})] = (
        "127.0.0.1:7233"
    )
    namespace: Annotated[str, Field(min_length=1)] = "default"
    ui_url: Web = ""


class S3Section(_Section):
    """Where vaults of kind s3 live unless their own row says otherwise. Keys come from the usual AWS chain."""

    endpoint_url: Web = ""


class RecycleSection(_Section):
    """When rounds run, how long garbage stays, and how hard a round works."""

    recycle_interval_seconds: Annotated[int, Field(ge=10, le=2_678_400, json_schema_extra={"unit": "seconds"})] = 3_600
    recycle_concurrency: Annotated[int, Field(ge=1, le=1_000, json_schema_extra={"unit": "rounds"})] = 16
    recycle_whitelist: Names = []
    recycle_blacklist: Names = []
    recycler_storage_vault_white_list: Names = []
    recycle_windows: Windows = []
    retention_seconds: Annotated[int, _seconds(600)] = 259_200
    compacted_rowset_retention_seconds: Annotated[int, _seconds(600)] = 1_800
    dropped_partition_retention_seconds: Annotated[int, _seconds(3_600)] = 10_800
    dropped_index_retention_seconds: Annotated[int, _seconds(3_600)] = 10_800
    label_keep_max_second: Annotated[int, _seconds(600)] = 259_200
    upload_grace_seconds: Annotated[int, _seconds(600)] = 3_600
    max_delete_fraction: Annotated[float, Field(gt=0, le=1, json_schema_extra={"unit": "of the live objects"})] = 0.1
    max_delete_objects: Annotated[int, Field(ge=1, json_schema_extra={"unit": "objects"})] = 1_000_000
    recycle_pool_parallelism: Annotated[int, Field(ge=1, le=64, json_schema_extra={"unit": "prefixes"})] = 40
    instance_recycler_worker_pool_size: Annotated[int, Field(ge=1, le=64, json_schema_extra={"unit": "requests"})] = 32


class AuditSection(_Section):
    """Where it is written down, object by object, what went, and for how long."""

    audit_url: Annotated[str, AfterValidator(_audit)] = ""
    audit_retention_days: Annotated[int, Field(ge=1, le=3_650, json_schema_extra={"unit": "days"})] = 400


class ProtectionSection(_Section):
    """For how long sync jobs may keep what they copy, and how many of them."""

    sync_protection_ttl_seconds: Annotated[int, Field(ge=10, le=86_400, json_schema_extra={"unit": "seconds"})] = 1_200
    max_protection_seconds: Annotated[int, Field(ge=60, le=2_592_000, json_schema_extra={"unit": "seconds"})] = 86_400
    max_soft_hold_seconds: Annotated[int, Field(ge=0, le=2_592_000, json_schema_extra={"unit": "seconds"})] = 86_400
    sync_protection_max_count: Annotated[int, Field(ge=1, le=10_000)] = 100
    strict_gate: bool = False


class CheckSection(_Section):
    """How often metadata and objects are compared, and what is judged."""

    enable_checker: bool = True
    enable_inverted_check: bool = True
    check_object_interval_seconds: Annotated[int, Field(ge=60, le=2_678_400, json_schema_extra={"unit": "seconds"})] = (
        43_200
    )
    check_grace_seconds: Annotated[int, _seconds(3_600)] = 86_400


class SparkSection(_Section):
    """Where heavy work runs, and from how much on."""

    remote: Annotated[str, Field(pattern=r"^local(\[([0-9]+|\*)\])?$|^sc://\S+$")] = "local[*]"
    spark_threshold_objects: Annotated[int, Field(ge=1, json_schema_extra={"unit": "objects"})] = 250_000
    spark_max_db_connections: Annotated[int, Field(ge=4, le=1_000, json_schema_extra={"unit": "connections"})] = 16
    spark_task_requests: Annotated[int, Field(ge=1, le=64, json_schema_extra={"unit": "requests"})] = 4
    spark_broadcast_max_bytes: Annotated[int, Field(ge=0, json_schema_extra={"unit": "bytes"})] = 8_388_608
    scratch: str = ""
    conf: dict[str, str] = Field(default_factory=dict)


class WalSection(_Section):
    """Kafka topics that regions of a database share: how far they are purged, and when."""

    kafka: Annotated[dict[str, str], BeforeValidator(_librdkafka)] = Field(default_factory=dict)
    auto_purge_interval_seconds: Annotated[int, Field(ge=10, le=2_678_400, json_schema_extra={"unit": "seconds"})] = (
        1_800
    )
    auto_purge_parallelism: Annotated[int, Field(ge=1, le=100, json_schema_extra={"unit": "pages"})] = 10
    purge_trigger_entries: Annotated[int, Field(ge=1, json_schema_extra={"unit": "entries"})] = 10_000_000
    purge_trigger_bytes: Annotated[int, Field(ge=1, json_schema_extra={"unit": "bytes"})] = 1_073_741_824
    flush: Annotated[str, Field(pattern="^(http|off)$")] = "http"
    flush_timeout_seconds: Annotated[int, Field(ge=1, le=3_600, json_schema_extra={"unit": "seconds"})] = 600
    trigger_flush_entries: Annotated[int, Field(ge=1, json_schema_extra={"unit": "entries"})] = 1_000_000
    trigger_flush_bytes: Annotated[int, Field(ge=1, json_schema_extra={"unit": "bytes"})] = 536_870_912
    topic_idle_grace_seconds: Annotated[int, _seconds(3_600)] = 86_400
    map_stale_seconds: Annotated[int, _seconds(60)] = 86_400
    replay_pin_ttl_seconds: Annotated[int, Field(ge=10, le=86_400, json_schema_extra={"unit": "seconds"})] = 300
    replay_pin_max_seconds: Annotated[int, Field(ge=60, le=2_592_000, json_schema_extra={"unit": "seconds"})] = 86_400


class BinlogSection(_Section):
    """Binlogs of databases and tables: how often what has expired is cut, and who may keep it for how long."""

    gc_binlog_interval_seconds: Annotated[int, Field(ge=10, le=2_678_400, json_schema_extra={"unit": "seconds"})] = 313
    hold_limit_seconds: Annotated[int, _seconds(600)] = 86_400
    max_cut_fraction: Annotated[float, Field(gt=0, le=1, json_schema_extra={"unit": "of a log's records"})] = 0.5


class ReplicaSection(_Section):
    """Copies of tablets on backends: for how long a report counts, and when a gap is one."""

    report_freshness_seconds: Annotated[int, _seconds(60)] = 600
    gap_persist_seconds: Annotated[int, Field(ge=1, le=86_400, json_schema_extra={"unit": "seconds"})] = 60


class ApiSection(_Section):
    """Where `sexton api` answers, and with which certificate."""

    listen: Annotated[str, Field(pattern=r"^[^\s/]+:[0-9]{1,5}$", json_schema_extra={"unit": "host:port"})] = (
        "127.0.0.1:8470"
    )
    tls_cert: str = ""
    tls_key: str = ""


class PricesSection(_Section):
    """What requests cost, for the estimates of plans."""

    list_per_1000_requests: Annotated[float, Field(ge=0, json_schema_extra={"unit": "of the currency"})] = 0.005
    delete_per_1000_requests: Annotated[float, Field(ge=0, json_schema_extra={"unit": "of the currency"})] = 0.0
    currency: Annotated[str, Field(pattern=r"^\S{1,8}$")] = "USD"


class MetricsSection(_Section):
    """Where a worker answers `GET /metrics`."""

    listen: Annotated[str, Field(pattern=r"^$|^[^\s/]+:[0-9]{1,5}$", json_schema_extra={"unit": "host:port"})] = ""
    enable_recycler_stats_metrics: bool = True


class KindSection(_Section):
    """A kind that an owner brings, beside the engine's four; ``after`` names kinds that must go before it."""

    retention_seconds: Annotated[int, _seconds(600)]
    after: Names = []
