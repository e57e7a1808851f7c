"""All settings of Sexton, each with unit, default and bounds. An unknown key or an unsafe value stops the process.

``load()`` reads the environment, ``.sexton/env``, one TOML file and the defaults, in this order of precedence;
``explain()`` returns the source of each value.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from config.explain import SettingRow, rows, sentence
from config.sections import (
    ApiSection,
    AuditSection,
    BinlogSection,
    CheckSection,
    KindSection,
    LogSection,
    MetricsSection,
    NoticesSection,
    OidcSection,
    PricesSection,
    ProtectionSection,
    RecycleSection,
    ReplicaSection,
    S3Section,
    SparkSection,
    TelemetrySection,
    TemporalSection,
    WalSection,
    check_ca_certs,
    check_deployment,
)
from config.sources import Layer, SettingsError, home, layers, reads_home
from sexton.check.model import CheckSettings
from sexton.kernel.errors import BadInput
from sexton.kernel.live import Live
from sexton.kernel.trust import Trust
from sexton.operators.controls.model import Control, ControlKind
from sexton.protection.model import ProtectionSettings
from sexton.recycle.planning.model import OwnerPolicy, Policy
from sexton.recycle.planning.policy import policy
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.replicas.model import ReplicaSettings
from sexton.wal.model import WalSettings

if TYPE_CHECKING:
    from sexton.owners.plugin import OwnerPlugin


@dataclass(frozen=True)
class EngineSettings:
    """The settings that ``Engine`` is built with. ``controls``: lists and windows, added to SQL's."""

    deployment: str
    endpoint_url: str = ""
    trust: Trust = field(default_factory=Trust)
    controls: Sequence[Control] = ()
    interval_seconds: int = 3_600
    rounds_at_once: int = 16
    requests_at_once: int = 32
    listings_at_once: int = 40
    audit_url: str = ""
    audit_retention_days: int = 400
    protection: ProtectionSettings = field(default_factory=ProtectionSettings)
    check: CheckSettings = field(default_factory=CheckSettings)
    wal: WalSettings = field(default_factory=WalSettings)
    binlog: BinlogSettings = field(default_factory=BinlogSettings)
    replica: ReplicaSettings = field(default_factory=ReplicaSettings)
    live: "Live[EngineSettings] | None" = None
    """The same settings as they are in force now; None: these never change."""

    @property
    def in_force(self) -> "Live[EngineSettings]":
        """The settings to read where they are used."""
        return self.live or Live.of(self)


ENGINE_KINDS = ("prepared", "compacted", "dropped", "orphan")
UNLIMITED = ("compacted", "prepared")
"""Kinds of garbage that no user dropped: they do not count against the limits of 24 hours."""

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def check_database(url: str) -> str:
    """Return a database's URL with its driver; raise ``ValueError`` for any but PostgreSQL. Empty: not set yet."""
    for plain in ("postgresql://", "postgres://"):
        if url.startswith(plain):
            url = "postgresql+psycopg://" + url.removeprefix(plain)
    if url and not re.match(r"postgresql\+psycopg://.", url):
        raise ValueError("use postgresql://USER@HOST/NAME")
    return url


def check_live_database(url: str) -> str:
    """Return the URL with which live views are read; raise ``ValueError`` if it is wrong.

    ``{instance}`` in the user's name stands for the instance whose view is read, so that each has a login of its own.
    """
    url = check_database(url)
    login, _, server = url.partition("://")[2].rpartition("@")
    user, _, password = login.partition(":")
    if url and ("{instance}" not in user or "{" in user.replace("{instance}", "") or "{instance}" in password + server):
        raise ValueError(
            "use {instance} in the user's name, and nowhere else: postgresql://{instance}_reader@HOST/NAME"
        )
    return url


class Settings(BaseModel):
    """The settings of one process. ``Settings()`` reads every source; keyword arguments come first."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    deployment: Annotated[str, AfterValidator(check_deployment)] = ""
    database_url: Annotated[str, AfterValidator(check_database)] = ""
    live_database_url: Annotated[str, AfterValidator(check_live_database)] = ""
    ca_certs: Annotated[str, AfterValidator(check_ca_certs)] = ""
    insecure_http: bool = False
    temporal: TemporalSection = TemporalSection()
    s3: S3Section = S3Section()
    recycle: RecycleSection = RecycleSection()
    audit: AuditSection = AuditSection()
    protection: ProtectionSection = ProtectionSection()
    check: CheckSection = CheckSection()
    spark: SparkSection = SparkSection()
    wal: WalSection = WalSection()
    binlog: BinlogSection = BinlogSection()
    replica: ReplicaSection = ReplicaSection()
    api: ApiSection = ApiSection()
    oidc: OidcSection = OidcSection()
    prices: PricesSection = PricesSection()
    metrics: MetricsSection = MetricsSection()
    log: LogSection = LogSection()
    telemetry: TelemetrySection = TelemetrySection()
    notices: NoticesSection = NoticesSection()
    kinds: dict[str, KindSection] = Field(default_factory=dict)

    def __init__(self, **values: Any) -> None:
        for layer in layers():
            values = _merged(layer.values, values)
        super().__init__(**values)

    @model_validator(mode="after")
    def _check_order_of_kinds(self) -> "Settings":
        known_kinds = {*ENGINE_KINDS, *self.kinds}
        for name, kind in self.kinds.items():
            unknown = set(kind.after) - known_kinds
            if unknown:
                raise ValueError(f"kinds.{name}.after names {', '.join(sorted(unknown))}, which is not a kind")
        try:
            self.policy()
        except BadInput as e:
            raise ValueError(str(e)) from e
        return self

    @field_validator("kinds")
    @classmethod
    def check_names_of_kinds(cls, kinds: dict[str, KindSection]) -> dict[str, KindSection]:
        """Return the kinds; raise ``ValueError`` if the name of one is not allowed."""
        for name in kinds:
            if name in ENGINE_KINDS:
                raise ValueError(f"{name!r} is an engine kind; set its retention under [recycle]")
            if not _KIND.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid kind name; use a-z, then up to 31 of a-z, 0-9, '_' and '-'")
        return kinds

    def require_deployment(self) -> str:
        """Return the deployment id, which every vault's marker must carry. Raises ``SettingsError``."""
        if not self.deployment:
            raise SettingsError(
                f"no deployment id: SEXTON_DEPLOYMENT is not set, and {home().absolute() / 'env'} (of sexton up) "
                f"{'has none' if reads_home() else 'is not read beside SEXTON_DATABASE_URL'}; change to the right "
                "directory, or set it: sexton init prints that of the database, or creates one"
            )
        return self.deployment

    def require_database_url(self) -> str:
        """Return the URL of the database with Sexton's own tables. Raises ``SettingsError``."""
        if not self.database_url:
            raise SettingsError(
                f"no database: SEXTON_DATABASE_URL is not set, and {home().absolute() / 'env'} (of sexton up) "
                f"{'has none' if reads_home() else 'is not read beside SEXTON_DEPLOYMENT'}; set it to "
                "postgresql://USER@HOST/NAME, or run `sexton up` without SEXTON_DEPLOYMENT"
            )
        return self.database_url

    def retentions(self) -> dict[str, int]:
        """Return the retention in seconds of each engine kind and each kind of the owners."""
        recycle = self.recycle
        engine_kinds = {
            "prepared": recycle.retention_seconds,
            "compacted": recycle.compacted_rowset_retention_seconds,
            "dropped": recycle.dropped_partition_retention_seconds,
            "orphan": recycle.retention_seconds,
        }
        return engine_kinds | {name: kind.retention_seconds for name, kind in self.kinds.items()}

    def policy(self) -> Policy:
        """Return the retentions and the limits. A plan stores them, and keeps those that it was made with."""
        recycle = self.recycle
        return policy(
            self.retentions(),
            recycle.upload_grace_seconds,
            {name: kind.after for name, kind in self.kinds.items()},
            owners=owner_policies(recycle, self.kinds),
            unlimited=UNLIMITED,
            max_delete_objects=recycle.max_delete_objects,
            max_delete_fraction=recycle.max_delete_fraction,
            fallback_retention_seconds=recycle.fallback_retention_seconds or None,
        )

    def engine_settings(self) -> EngineSettings:
        """Return the settings that the engine is built with."""
        recycle = self.recycle
        return EngineSettings(
            deployment=self.require_deployment(),
            endpoint_url=self.s3.endpoint_url,
            trust=self.trust(),
            controls=self.controls(),
            interval_seconds=recycle.recycle_interval_seconds,
            rounds_at_once=recycle.recycle_concurrency,
            requests_at_once=recycle.instance_recycler_worker_pool_size,
            listings_at_once=recycle.recycle_pool_parallelism,
            audit_url=self.audit.audit_url,
            audit_retention_days=self.audit.audit_retention_days,
            protection=self.protection_settings(),
            check=self.check_settings(),
            wal=self.wal_settings(),
            binlog=self.binlog_settings(),
            replica=self.replica_settings(),
        )

    def trust(self) -> Trust:
        """Return what outgoing connections trust."""
        return Trust(ca_certs=self.ca_certs, insecure_http=self.insecure_http)

    def protection_settings(self) -> ProtectionSettings:
        """Return how long protections may last, and how many an instance may have."""
        section = self.protection
        shared = section.model_dump(include=set(ProtectionSettings.model_fields))
        ttl = min(section.sync_protection_ttl_seconds, section.max_protection_seconds)
        longest, most = section.max_protection_seconds, section.sync_protection_max_count
        return ProtectionSettings(ttl_seconds=ttl, max_seconds=longest, max_count=most, **shared)

    def check_settings(self) -> CheckSettings:
        """Return the settings of checks."""
        return CheckSettings(
            enabled=self.check.enable_checker,
            inverted=self.check.enable_inverted_check,
            interval_seconds=self.check.check_object_interval_seconds,
            grace_seconds=self.check.check_grace_seconds,
            live_max_age_seconds=self.check.live_max_age_seconds,
            heavy_objects=self.spark.spark_threshold_objects,
        )

    def wal_settings(self) -> WalSettings:
        """Return the settings of WAL purges."""
        section = self.wal
        shared = section.model_dump(include=set(WalSettings.model_fields))
        shared["replay_pin_ttl_seconds"] = min(section.replay_pin_ttl_seconds, section.replay_pin_max_seconds)
        at_home = self.deployment.startswith(("demo-", "test-"))
        return WalSettings(flushes=section.flush == "http", flushes_loopback=at_home, **shared)

    def binlog_settings(self) -> BinlogSettings:
        """Return the settings of binlog GCs."""
        section = self.binlog
        return BinlogSettings(
            interval_seconds=section.gc_binlog_interval_seconds,
            hold_limit_seconds=section.hold_limit_seconds,
            max_cut_fraction=section.max_cut_fraction,
        )

    def replica_settings(self) -> ReplicaSettings:
        """Return the settings by which replicas' reports are judged."""
        section = self.replica
        return ReplicaSettings(
            freshness_seconds=section.report_freshness_seconds,
            gap_persist_seconds=section.gap_persist_seconds,
            hold_limit_seconds=self.binlog.hold_limit_seconds,
        )

    def intervals(self) -> tuple[int, int, int]:
        """Return the seconds between two rounds, two purges of a topic and two binlog GCs, which metrics show."""
        binlogs = self.binlog.gc_binlog_interval_seconds
        return self.recycle.recycle_interval_seconds, self.wal.auto_purge_interval_seconds, binlogs

    def shortest_interval(self) -> int:
        """Return the shortest of them, and of that between two checks, in seconds: the tick follows it."""
        return min(*self.intervals(), self.check.check_object_interval_seconds)

    def controls(self) -> tuple[Control, ...]:
        """Return the lists and windows of the settings, which apply beside those in the database."""
        recycle = self.recycle
        names_by_kind = {
            ControlKind.WHITELIST: recycle.recycle_whitelist,
            ControlKind.BLACKLIST: recycle.recycle_blacklist,
            ControlKind.VAULT_WHITELIST: recycle.recycler_storage_vault_white_list,
            ControlKind.WINDOW: recycle.recycle_windows,
        }
        return tuple(
            Control(kind=k, name=n, set_by="the settings") for k, names in names_by_kind.items() for n in names
        )


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of two sources, section by section; those of ``upper`` take precedence."""
    merged = {**lower, **upper}
    both = [name for name in upper if isinstance(upper[name], dict) and isinstance(lower.get(name), dict)]
    return merged | {name: _merged(lower[name], upper[name]) for name in both}


def load(**overrides: str) -> Settings:
    """Return the settings of all sources; overrides, by dotted key, take precedence. Raises ``SettingsError``."""
    override_layer = Layer()
    for key, value in overrides.items():
        override_layer.put(key.split("."), value, "as given")
    try:
        return Settings(**override_layer.values)
    except ValidationError as e:
        sources = [override_layer, *layers()]
        sections: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
        sections |= {f"kinds.{kind}": KindSection for layer in sources for kind in layer.values.get("kinds", ())}
        known_keys = [*Settings.model_fields]  # a misspelt key gets a suggestion from all of them
        for name, section in sections.items():
            if isinstance(section, type) and issubclass(section, BaseModel):
                known_keys += [f"{name}.{key}" for key in section.model_fields]
        raise SettingsError(" ".join(sentence(p, sources, known_keys) for p in e.errors())) from None


def explain() -> list[SettingRow]:
    """Return every setting with its value, its source, its unit, and its bounds and default."""
    return rows(load())


def owner_policies(recycle: RecycleSection, kinds: Mapping[str, KindSection]) -> dict[str, OwnerPolicy]:
    """Return what the settings say of the kinds of each owner that is installed."""
    from sexton.owners.plugins import installed

    policies: dict[str, OwnerPolicy] = {}
    for name, owner in installed().items():
        if owner.plugin is None or not owner.plugin.kinds:
            continue
        retention_seconds: dict[str, int] = {}
        for kind in owner.plugin.kinds:
            own = None if kind.fixed else kinds.get(kind.name)
            if kind.setting:
                seconds = int(getattr(recycle, kind.setting))
            else:
                seconds = kind.retention_seconds if own is None else own.retention_seconds
            retention_seconds[kind.name] = seconds
        policies[name] = owner_policy(owner.plugin, retention_seconds)
    return policies


def owner_policy(plugin: "OwnerPlugin", retention_seconds: Mapping[str, int]) -> OwnerPolicy:
    """Return a policy for an owner's kinds with these retentions."""
    return OwnerPolicy(
        retention_seconds=dict(retention_seconds),
        after=dict(plugin.after),
        fileless=tuple(kind.name for kind in plugin.kinds if not kind.has_files),
        unlimited=tuple(kind.name for kind in plugin.kinds if not kind.limited),
    )
