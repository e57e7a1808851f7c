"""The sections of the settings, each with its keys, units, defaults and bounds."""

import re
import ssl
from enum import Enum, auto
from ipaddress import ip_network
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core.core_schema import ValidationInfo

from sexton.kernel.errors import BadInput
from sexton.kernel.message import in_units
from sexton.operators.access import policy
from sexton.operators.controls.policy import parse_window

RETENTION_FLOOR = 600
"""The shortest retention of any kind, in seconds."""


def check_deployment(text: str) -> str:
    """Return a deployment id; raise ``ValueError`` if it is malformed."""
    if text and not re.fullmatch(r"[a-z0-9][a-z0-9-]{2,62}", text):
        raise ValueError(
            "use 3 to 63 of a-z, 0-9 and '-', beginning with a letter or digit; `sexton init` prints a new one"
        )
    return text


def check_ca_certs(path: str) -> str:
    """Return the path of a file in PEM with certificates; raise ``ValueError`` if it has none."""
    if path:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except OSError as e:
            raise ValueError(f"{path} cannot be read as certificates in PEM: {e}") from e
    return path


def check_fallback(seconds: int) -> int:
    """Return the retention of kinds without one of their own: 0, they have none, or at least 600 s."""
    if 0 < seconds < RETENTION_FLOOR:
        raise ValueError(f"use 0 for none, or {RETENTION_FLOOR} or more")
    return seconds


RETENTION_CEILING = 3650 * 86_400
"""Ten years, in seconds: a larger value is probably a typing error."""
MOST = 2**62
"""The largest number of objects, entries or bytes: a database compares it with its own."""


def _matching(pattern: str, form: str) -> AfterValidator:
    """Accept a text whose beginning has a pattern, and an empty one; otherwise ask for its form."""

    def check(text: str) -> str:
        if text and not re.match(pattern, text):
            raise ValueError(f"use {form}")
        return text

    return AfterValidator(check)


def _scopes(texts: list[str]) -> list[str]:
    try:
        return [str(policy.scope(text)) for text in texts]
    except BadInput as e:
        raise ValueError(str(e)) from e


def _list_separated_by(separator: str) -> BeforeValidator:
    """Accept a list as one text, as in an environment variable."""

    def parse(value: Any) -> Any:
        return [part.strip() for part in value.split(separator) if part.strip()] if isinstance(value, str) else value

    return BeforeValidator(parse)


def _windows(texts: list[str]) -> list[str]:
    for text in texts:
        try:
            parse_window(text)
        except BadInput as e:
            raise ValueError(str(e)) from e
    return texts


def _librdkafka(options: Any) -> Any:
    """Return librdkafka's options as texts; names of variables, with ``_`` for each dot, take precedence."""
    if not isinstance(options, dict):
        return options
    texts = {name: str(value).lower() if isinstance(value, int) else value for name, value in options.items()}
    dotted = {name: text for name, text in texts.items() if "_" not in name}
    return dotted | {name.replace("_", "."): text for name, text in texts.items() if "_" in name}


def _addresses(names: str | None = None) -> AfterValidator:
    """Accept addresses and networks, and names that have a pattern; None: no names."""

    def check(texts: list[str]) -> list[str]:
        for text in texts:
            if names is not None and re.fullmatch(names, text):
                continue
            try:
                ip_network(text)
            except ValueError as e:
                raise ValueError(f"{e}; use addresses and networks, such as 10.0.0.7 and 10.1.0.0/16") from e
        return texts

    return AfterValidator(check)


class Trait(Enum):
    """What the database may change, and what is printed of a setting."""

    EACH = auto()
    """The database may change it, for each instance."""
    ALL = auto()
    """The database may change it for all instances alone: its work concerns several of them."""
    SHOWN = auto()
    """Its text is no secret, but for passwords in URLs. Numbers and switches are shown; all other texts are masked."""


EACH, ALL, SHOWN = Trait.EACH, Trait.ALL, Trait.SHOWN


def _in(unit: str, **bounds: Any) -> Any:
    return Field(json_schema_extra={"unit": unit}, **bounds)


def _seconds(floor: int, ceiling: int = RETENTION_CEILING) -> Any:
    return _in("seconds", ge=floor, le=ceiling)


Web = Annotated[str, _matching(r"https?://[^/\s]+\S*\Z", "http://HOST:PORT or https://HOST, or leave it empty")]
AuditUrl = Annotated[
    str,
    _matching(
        r"(s3://[^/\s]+(/\S*)?|file:///\S*|/\S*)\Z",
        "s3://BUCKET/PREFIX or file:///DIRECTORY, or leave it empty to keep it in the vault",
    ),
]
KeySource = Annotated[
    str,
    _matching(
        r"https://[^/\s]|http://(127\.0\.0\.1|localhost|\[::1\])[:/]",
        "https://HOST/PATH, or http:// on loopback: these keys decide who is admitted",
    ),
]
"""The URL of an issuer's keys, which nobody on the way may be able to replace."""
HostPort = Annotated[str, _in("host:port", pattern=r"^[^\s/]+:[0-9]{1,5}$")]
Names = Annotated[list[str], _list_separated_by(",")]
Networks = Annotated[list[str], _list_separated_by(","), _addresses()]
Hosts = Annotated[list[str], _list_separated_by(","), _addresses(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")]
Windows = Annotated[list[str], _list_separated_by(";"), AfterValidator(_windows)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _read_unit(cls, value: Any, info: ValidationInfo) -> Any:
        """Return the seconds of ``7d`` and the bytes of ``1.5 GiB`` where that is the setting's unit."""
        return in_units(value, unit_of(cls.model_fields[info.field_name or ""]))


def unit_of(field: FieldInfo) -> str:
    """Return the unit of a setting; empty: it has none."""
    return str(field.json_schema_extra.get("unit", "")) if isinstance(field.json_schema_extra, dict) else ""


class TemporalSection(_Section):
    """The Temporal service that runs the workflows."""

    address: Annotated[HostPort, SHOWN] = "127.0.0.1:7233"
    namespace: Annotated[str, SHOWN, Field(min_length=1)] = "default"
    tls: bool = False
    tls_ca: Annotated[str, SHOWN] = ""
    tls_cert: Annotated[str, SHOWN] = ""
    tls_key: Annotated[str, SHOWN] = ""
    server_name: Annotated[str, SHOWN] = ""
    api_key: Annotated[str, Field(pattern=r"^\S*$", repr=False)] = ""
    profile: Annotated[str, SHOWN, Field(pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    ui_url: Annotated[Web, SHOWN] = ""
    worker_versioning: bool = False
    build_id: Annotated[str, SHOWN, Field(pattern=r"^[A-Za-z0-9_.+-]{0,128}$")] = ""

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted: any of its settings says so, as an API key must not go in clear text."""
        return self.tls or any((self.tls_ca, self.tls_cert, self.server_name, self.api_key))

    @model_validator(mode="after")
    def _check_protection(self) -> Self:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("tls_cert and tls_key belong together; set both or none")
        if self.profile and self.uses_tls:
            raise ValueError(
                "TLS and the API key are set in the profile, not beside it; clear tls, tls_ca, tls_cert, tls_key, "
                "server_name and api_key here"
            )
        return self


class S3Section(_Section):
    """The S3 endpoint of vaults that name none themselves. Keys come from the usual AWS chain."""

    endpoint_url: Annotated[Web, SHOWN] = ""


class RecycleSection(_Section):
    """When rounds run, how long garbage is retained, and how much a round does at a time."""

    recycle_interval_seconds: Annotated[int, EACH, _seconds(10, 2_678_400)] = 3_600
    recycle_concurrency: Annotated[int, _in("rounds", ge=1, le=1_000)] = 16
    recycle_ranges_at_once: Annotated[int, _in("ranges", ge=1, le=64)] = 4
    recycle_whitelist: Annotated[Names, SHOWN] = []
    recycle_blacklist: Annotated[Names, SHOWN] = []
    recycler_storage_vault_white_list: Annotated[Names, SHOWN] = []
    recycle_windows: Annotated[Windows, SHOWN] = []
    retention_seconds: Annotated[int, EACH, _seconds(600)] = 259_200
    compacted_rowset_retention_seconds: Annotated[int, EACH, _seconds(600)] = 1_800
    dropped_partition_retention_seconds: Annotated[int, EACH, _seconds(3_600)] = 10_800
    dropped_index_retention_seconds: Annotated[int, EACH, _seconds(3_600)] = 10_800
    label_keep_max_second: Annotated[int, EACH, _seconds(600)] = 259_200
    fallback_retention_seconds: Annotated[int, EACH, _seconds(0), AfterValidator(check_fallback)] = 0
    upload_grace_seconds: Annotated[int, EACH, _seconds(600)] = 3_600
    max_delete_fraction: Annotated[float, EACH, _in("of the live objects", gt=0, le=1)] = 0.1
    max_delete_objects: Annotated[int, EACH, _in("objects", ge=1, le=MOST)] = 1_000_000
    recycle_pool_parallelism: Annotated[int, _in("prefixes", ge=1, le=64)] = 40
    instance_recycler_worker_pool_size: Annotated[int, _in("requests", ge=1, le=64)] = 32


class AuditSection(_Section):
    """Where the deletion of each object is recorded, and how long these records are kept."""

    audit_url: Annotated[AuditUrl, SHOWN] = ""
    audit_retention_days: Annotated[int, _in("days", ge=1, le=3_650)] = 400


class ProtectionSection(_Section):
    """How long and how much sync jobs may protect of the files they copy."""

    sync_protection_ttl_seconds: Annotated[int, _seconds(10, 86_400)] = 1_200
    max_protection_seconds: Annotated[int, _seconds(60, 2_592_000)] = 86_400
    max_soft_hold_seconds: Annotated[int, _seconds(0, 2_592_000)] = 86_400
    sync_protection_max_count: Annotated[int, Field(ge=1, le=10_000)] = 100
    job_max_protections: Annotated[int, Field(ge=1, le=10_000)] = 10
    job_max_objects: Annotated[int, _in("objects", ge=1, le=10**12)] = 5_000_000
    job_max_bytes: Annotated[int, _in("bytes", ge=1, le=2**62)] = 2**50
    job_max_age_seconds: Annotated[int, _seconds(60, 31_536_000)] = 604_800
    strict_gate: bool = False


class CheckSection(_Section):
    """How often metadata and objects are compared, and which objects are judged."""

    enable_checker: bool = True
    enable_inverted_check: bool = True
    check_object_interval_seconds: Annotated[int, EACH, _seconds(60, 2_678_400)] = 43_200
    check_grace_seconds: Annotated[int, EACH, _seconds(3_600)] = 86_400
    live_max_age_seconds: Annotated[int, _seconds(60)] = 3_600


class SparkSection(_Section):
    """Where large listings, comparisons and deletions run, and from which size on."""

    remote: Annotated[str, SHOWN, Field(pattern=r"^local(\[([0-9]+|\*)\])?$|^sc://\S+$")] = "local[*]"
    spark_threshold_objects: Annotated[int, ALL, _in("objects", ge=1, le=MOST)] = 250_000
    spark_max_db_connections: Annotated[int, _in("connections", ge=4, le=1_000)] = 16
    spark_task_requests: Annotated[int, _in("requests", ge=1, le=64)] = 4
    spark_broadcast_max_bytes: Annotated[int, _in("bytes", ge=0)] = 8_388_608
    scratch: Annotated[str, SHOWN] = ""
    conf: dict[str, str] = Field(default_factory=dict)


class WalSection(_Section):
    """How far and how often the Kafka topics that regions share are purged."""

    kafka: Annotated[dict[str, str], BeforeValidator(_librdkafka)] = Field(default_factory=dict)
    auto_purge_interval_seconds: Annotated[int, ALL, _seconds(10, 2_678_400)] = 1_800
    auto_purge_parallelism: Annotated[int, _in("topics", ge=1, le=100)] = 10
    purge_trigger_entries: Annotated[int, ALL, _in("entries", ge=1, le=MOST)] = 10_000_000
    purge_trigger_bytes: Annotated[int, ALL, _in("bytes", ge=1, le=MOST)] = 1_073_741_824
    flush: Annotated[str, SHOWN, Field(pattern="^(http|off)$")] = "http"
    flush_nodes: Hosts = []
    flush_secret: Annotated[str, Field(pattern=r"^(\S{32,256})?$", repr=False)] = ""
    flush_timeout_seconds: Annotated[int, _seconds(1, 3_600)] = 600
    trigger_flush_entries: Annotated[int, ALL, _in("entries", ge=1, le=MOST)] = 1_000_000
    trigger_flush_bytes: Annotated[int, ALL, _in("bytes", ge=1, le=MOST)] = 536_870_912
    topic_idle_grace_seconds: Annotated[int, _seconds(3_600)] = 86_400
    map_stale_seconds: Annotated[int, _seconds(60)] = 86_400
    max_instance_regions: Annotated[int, _in("regions", ge=1_000, le=10**7)] = 200_000
    replay_pin_ttl_seconds: Annotated[int, _seconds(10, 86_400)] = 300
    replay_pin_max_seconds: Annotated[int, _seconds(60, 2_592_000)] = 86_400


class BinlogSection(_Section):
    """How often expired binlogs are cut, and how long consumers may block that."""

    gc_binlog_interval_seconds: Annotated[int, ALL, _seconds(10, 2_678_400)] = 313
    hold_limit_seconds: Annotated[int, ALL, _seconds(600)] = 86_400
    max_cut_fraction: Annotated[float, ALL, _in("of a log's records", gt=0, le=1)] = 0.5


class ReplicaSection(_Section):
    """How long a report of a replica counts, and after what time a gap in its versions is marked for repair."""

    report_freshness_seconds: Annotated[int, _seconds(60)] = 600
    gap_persist_seconds: Annotated[int, _seconds(1, 86_400)] = 60


class ApiSection(_Section):
    """The address of ``sexton api``, its certificate, and the proxies before it."""

    listen: Annotated[HostPort, SHOWN] = "127.0.0.1:8470"
    tls_cert: Annotated[str, SHOWN] = ""
    tls_key: Annotated[str, SHOWN] = ""
    insecure: bool = False
    trusted_proxies: Networks = []


class OidcSection(_Section):
    """Which JWTs of a company's own issuer the API accepts, beside tokens of Sexton."""

    issuer: Web = ""
    audience: Annotated[str, Field(max_length=500)] = ""
    jwks: KeySource = ""
    claim: Annotated[str, Field(max_length=200)] = ""
    scopes: dict[str, Annotated[list[str], Field(min_length=1, max_length=50), AfterValidator(_scopes)]] = Field(
        default_factory=dict
    )
    leeway_seconds: Annotated[int, _seconds(0, 120)] = 30

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        given = {name: bool(getattr(self, name)) for name in ("issuer", "audience", "jwks", "claim", "scopes")}
        missing = [name for name, is_given in given.items() if not is_given]
        if 0 < len(missing) < len(given):
            raise ValueError(f"section oidc needs {', '.join(missing)} too; leave all of it out to accept no JWTs")
        return self


class PricesSection(_Section):
    """Prices of requests and of storage, for the estimates of plans and of what waits."""

    list_per_1000_requests: Annotated[float, _in("of the currency", ge=0)] = 0.005
    delete_per_1000_requests: Annotated[float, _in("of the currency", ge=0)] = 0.0
    storage_per_gib_month: Annotated[float, _in("of the currency", ge=0)] = 0.023
    currency: Annotated[str, SHOWN, Field(pattern=r"^\S{1,8}$")] = "USD"


class KindSection(_Section):
    """A kind that an owner adds to the engine's four; ``after`` names kinds that must be deleted before it."""

    retention_seconds: Annotated[int, _seconds(600)]
    after: Names = []


class MetricsSection(_Section):
    """The address at which a worker answers ``GET /metrics``, ``/livez`` and ``/readyz``."""

    listen: Annotated[str, SHOWN, _in("host:port", pattern=r"^$|^[^\s/]+:[0-9]{1,5}$")] = "127.0.0.1:9464"
    enable_recycler_stats_metrics: bool = True
    per_instance: bool = False


class LogSection(_Section):
    """How much workers and the API log, and in which form."""

    format: Annotated[str, SHOWN, Field(pattern="^(console|json)$")] = "console"
    level: Annotated[str, SHOWN, Field(pattern="^(debug|info|warning|error)$")] = "info"


class TelemetrySection(_Section):
    """Where workers and commands send traces of workflows and activities."""

    otlp_endpoint: Annotated[Web, SHOWN] = ""


class NoticesSection(_Section):
    """The webhook that gets what needs an operator. The path of its URL is a secret, too, as Slack has them."""

    url: Annotated[Web, Field(repr=False)] = ""
    secret: Annotated[str, Field(pattern=r"^(\S{32,256})?$", repr=False)] = ""


def having(trait: Trait) -> frozenset[str]:
    """Return the keys of the settings that have a trait."""
    return frozenset(
        f"{section.__name__.removesuffix('Section').lower()}.{name}"
        for section in _Section.__subclasses__()
        for name, field in section.model_fields.items()
        if trait in field.metadata
    )
