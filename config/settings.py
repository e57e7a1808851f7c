"""Every knob of Sexton: strict, with unit, default and floor. What is unknown or unsafe stops the process.

`load()` reads environment over `.sexton/env` over one TOML file over these defaults; `explain()` says which one won.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from config.engine_settings import EngineSettings
from config.explain import SettingRow, rows, sentence
from config.sections import (
    ApiSection,
    AuditSection,
    BinlogSection,
    CheckSection,
    KindSection,
    MetricsSection,
    PricesSection,
    ProtectionSection,
    RecycleSection,
    ReplicaSection,
    S3Section,
    SparkSection,
    TemporalSection,
    WalSection,
    check_database,
    check_deployment,
)
from config.sources import Layer, SettingsError, home, layers, load_home_env, masked
from sexton.check.model import CheckSettings as CheckTerms
from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import Control, ControlKind
from sexton.protection.model import ProtectionSettings as ProtectionTerms
from sexton.recycle.model import Policy
from sexton.recycle.planning.policy import CATALOG, policy
from sexton.replication.binlog.model import BinlogSettings as BinlogTerms
from sexton.replication.replicas.model import ReplicaSettings as ReplicaTerms
from sexton.wal.model import WalSettings as WalTerms

__all__ = [
    "ENGINE_KINDS",
    "UNLIMITED",
    "ApiSection",
    "AuditSection",
    "BinlogSection",
    "CheckSection",
    "KindSection",
    "MetricsSection",
    "PricesSection",
    "ProtectionSection",
    "RecycleSection",
    "ReplicaSection",
    "S3Section",
    "SettingRow",
    "Settings",
    "SettingsError",
    "SparkSection",
    "TemporalSection",
    "WalSection",
    "explain",
    "home",
    "load",
    "load_home_env",
    "masked",
]

ENGINE_KINDS = ("prepared", "compacted", "dropped", "orphan")
UNLIMITED = ("compacted", "prepared", "txn_label")
"""Garbage that nobody dropped: it does not count against the limits of 24 hours."""

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class Settings(BaseSettings):
    """What one process runs with. ``Settings()`` reads every source; keyword arguments win over all of them."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    deployment: Annotated[str, AfterValidator(check_deployment)] = ""
    database_url: Annotated[str, AfterValidator(check_database)] = "sqlite:///.sexton/sexton.db"
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
    prices: PricesSection = PricesSection()
    metrics: MetricsSection = MetricsSection()
    kinds: dict[str, KindSection] = Field(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **__: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Our own layers instead of the library's: those ignore an unknown SEXTON_ variable, ours refuse it."""
        return (init_settings, *(InitSettingsSource(settings_cls, layer.values) for layer in layers()))

    @model_validator(mode="after")
    def _order(self) -> "Settings":
        known = {*ENGINE_KINDS, *self.kinds}
        for name, kind in self.kinds.items():
            if unknown := set(kind.after) - known:
                raise ValueError(f"kinds.{name}.after names {', '.join(sorted(unknown))}, which is no kind")
        try:
            self.policy()
        except BadInput as e:
            raise ValueError(str(e)) from e
        return self

    @field_validator("kinds")
    @classmethod
    def _names(cls, kinds: dict[str, KindSection]) -> dict[str, KindSection]:
        for name in kinds:
            if name in ENGINE_KINDS:
                raise ValueError(f"{name!r} is an engine kind; set its retention under [recycle]")
            if not _KIND.fullmatch(name):
                raise ValueError(f"{name!r} is no kind name; use a-z, then up to 31 of a-z, 0-9, '_' and '-'")
        return kinds

    def require_deployment(self) -> str:
        """The deployment id, which every vault's marker must carry; ``SettingsError`` where none is set."""
        if not self.deployment:
            raise SettingsError(
                f"no deployment id: SEXTON_DEPLOYMENT is not set, and {home().absolute() / 'env'} (of sexton up) does "
                "not give one; go to the right directory, set it, or begin anew with: sexton init"
            )
        return self.deployment

    def retentions(self) -> dict[str, int]:
        """Seconds from the mark to its being due, for each engine kind and each kind of the owners."""
        r = self.recycle
        engine = (
            r.retention_seconds,
            r.compacted_rowset_retention_seconds,
            r.dropped_partition_retention_seconds,
            r.retention_seconds,
        )
        own = {name: kind.retention_seconds for name, kind in self.kinds.items()}
        return dict(zip(ENGINE_KINDS, engine, strict=True)) | own

    def policy(self) -> Policy:
        """What is due when, and how much may go unasked. A plan carries it: it is judged by the settings of its day."""
        r = self.recycle
        index, partition = r.dropped_index_retention_seconds, r.dropped_partition_retention_seconds
        records = {"table": index, "index": index, "partition": partition}
        return policy(
            self.retentions(),
            r.upload_grace_seconds,
            {name: kind.after for name, kind in self.kinds.items()},
            owners={CATALOG: {**records, "tablet": 0, "txn_label": r.label_keep_max_second}},
            unlimited=UNLIMITED,
            max_delete_objects=r.max_delete_objects,
            max_delete_fraction=r.max_delete_fraction,
        )

    def terms(self) -> EngineSettings:
        """What the engine is put together with."""
        r = self.recycle
        return EngineSettings(
            deployment=self.require_deployment(),
            endpoint_url=self.s3.endpoint_url,
            controls=self.controls(),
            interval_seconds=r.recycle_interval_seconds,
            rounds_at_once=r.recycle_concurrency,
            requests_at_once=r.instance_recycler_worker_pool_size,
            listings_at_once=r.recycle_pool_parallelism,
            audit_url=self.audit.audit_url,
            audit_retention_days=self.audit.audit_retention_days,
            protection=self.protections(),
            check=self.checks(),
            wal=self.wal_terms(),
            binlog=self.binlog_terms(),
            replica=self.replica_terms(),
        )

    def protections(self) -> ProtectionTerms:
        """How long and how many protections may be."""
        p = self.protection
        return ProtectionTerms(
            ttl_seconds=min(p.sync_protection_ttl_seconds, p.max_protection_seconds),
            max_seconds=p.max_protection_seconds,
            max_soft_hold_seconds=p.max_soft_hold_seconds,
            max_count=p.sync_protection_max_count,
            strict_gate=p.strict_gate,
        )

    def checks(self) -> CheckTerms:
        """What checks run with."""
        return CheckTerms(
            enabled=self.check.enable_checker,
            inverted=self.check.enable_inverted_check,
            interval_seconds=self.check.check_object_interval_seconds,
            grace_seconds=self.check.check_grace_seconds,
            heavy_objects=self.spark.spark_threshold_objects,
        )

    def wal_terms(self) -> WalTerms:
        """What purges of topics run with."""
        w = self.wal
        return WalTerms(
            flush_entries=w.trigger_flush_entries,
            flush_bytes=w.trigger_flush_bytes,
            idle_grace_seconds=w.topic_idle_grace_seconds,
            map_stale_seconds=w.map_stale_seconds,
            pin_ttl_seconds=min(w.replay_pin_ttl_seconds, w.replay_pin_max_seconds),
            pin_max_seconds=w.replay_pin_max_seconds,
            interval_seconds=w.auto_purge_interval_seconds,
            purge_entries=w.purge_trigger_entries,
            purge_bytes=w.purge_trigger_bytes,
            flush_timeout_seconds=w.flush_timeout_seconds,
            flushes=w.flush == "http",
            at_once=w.auto_purge_parallelism,
            kafka=w.kafka,
        )

    def binlog_terms(self) -> BinlogTerms:
        """What binlogs are cut with."""
        b = self.binlog
        return BinlogTerms(
            interval_seconds=b.gc_binlog_interval_seconds,
            hold_limit_seconds=b.hold_limit_seconds,
            max_cut_fraction=b.max_cut_fraction,
        )

    def replica_terms(self) -> ReplicaTerms:
        """What reports of replicas are judged by."""
        r = self.replica
        return ReplicaTerms(
            freshness_seconds=r.report_freshness_seconds,
            gap_persist_seconds=r.gap_persist_seconds,
            hold_limit_seconds=self.binlog.hold_limit_seconds,
        )

    def intervals(self) -> tuple[int, int, int]:
        """Seconds from one round, one look at topics, and one look at binlogs to the next: metrics show them."""
        binlogs = self.binlog.gc_binlog_interval_seconds
        return self.recycle.recycle_interval_seconds, self.wal.auto_purge_interval_seconds, binlogs

    def controls(self) -> tuple[Control, ...]:
        """The lists and windows that the settings add to those in the database."""
        r = self.recycle
        named = {
            ControlKind.WHITELIST: r.recycle_whitelist,
            ControlKind.BLACKLIST: r.recycle_blacklist,
            ControlKind.VAULT_WHITELIST: r.recycler_storage_vault_white_list,
            ControlKind.WINDOW: r.recycle_windows,
        }
        return tuple(Control(kind=k, name=n, set_by="the settings") for k, names in named.items() for n in names)


def load(**given: str) -> Settings:
    """Read every source; values given by their dotted keys win. Raises ``SettingsError``, one sentence per problem."""
    top = Layer()
    for key, value in given.items():
        top.put(key.split("."), value, "as given")
    try:
        return Settings(**top.values)
    except ValidationError as e:
        sections = (
            Settings,
            TemporalSection,
            S3Section,
            RecycleSection,
            AuditSection,
            ProtectionSection,
            CheckSection,
            SparkSection,
            WalSection,
            BinlogSection,
            ReplicaSection,
            ApiSection,
            PricesSection,
            MetricsSection,
            KindSection,
        )
        known = {name for section in sections for name in section.model_fields}
        raise SettingsError(" ".join(sentence(p, [top, *layers()], known) for p in e.errors())) from None


def explain() -> list[SettingRow]:
    """Every setting with its value, the place it came from, its unit, and its bounds and default."""
    return rows(load())
