"""What the steps of the pipeline work with."""

from typing import NamedTuple

from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.store import ControlStore
from sexton.owners.port import Owner
from sexton.recycle.audit.writer import ParquetAudit
from sexton.recycle.pipeline.deleter import Deleter
from sexton.recycle.pipeline.sql.store import Stores
from sexton.storage.port import Vaults


class Parts(NamedTuple):
    """What the steps of a worker work with.

    ``deleter``: threads of this process, or executors. ``listings``: prefixes listed at the same time
    (``recycle_pool_parallelism``).
    """

    stores: Stores
    leases: LeaseStore
    controls: ControlStore
    vaults: Vaults
    owner: Owner
    log: ParquetAudit
    deleter: Deleter
    listings: int = 8
