"""What an engine is put together with, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sexton.check.model import CheckSettings as CheckTerms
from sexton.operators.controls.model import Control
from sexton.protection.model import ProtectionSettings as ProtectionTerms
from sexton.replication.binlog.model import BinlogSettings as BinlogTerms
from sexton.replication.replicas.model import ReplicaSettings as ReplicaTerms
from sexton.storage.model import PAGE_KEYS
from sexton.wal.model import WalSettings as WalTerms


@dataclass(frozen=True)
class EngineSettings:
    """What a deployment runs with. Seconds, days, and numbers of things at once; ``controls``: what settings add."""

    deployment: str
    endpoint_url: str = ""
    controls: Sequence[Control] = ()
    interval_seconds: int = 3_600
    rounds_at_once: int = 16
    requests_at_once: int = 32
    keys_a_request: int = PAGE_KEYS
    listings_at_once: int = 40
    audit_url: str = ""
    audit_retention_days: int = 400
    protection: ProtectionTerms = field(default_factory=ProtectionTerms)
    check: CheckTerms = field(default_factory=CheckTerms)
    wal: WalTerms = field(default_factory=WalTerms)
    binlog: BinlogTerms = field(default_factory=BinlogTerms)
    replica: ReplicaTerms = field(default_factory=ReplicaTerms)
