"""The settings of an engine, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sexton.check.model import CheckSettings
from sexton.kernel.live import Live
from sexton.kernel.trust import Trust
from sexton.operators.controls.model import Control
from sexton.protection.model import ProtectionSettings
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.replicas.model import ReplicaSettings
from sexton.storage.model import PAGE_KEYS
from sexton.wal.model import WalSettings


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
    keys_a_request: int = PAGE_KEYS
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
