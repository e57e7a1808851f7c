"""Assemble the steps of the pipeline, which ranges and adoption share."""

from typing import NamedTuple

from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.store import ControlStore
from sexton.owners.port import Owner
from sexton.recycle.audit.writer import ParquetAudit
from sexton.recycle.pipeline.deleter import Deleter
from sexton.recycle.pipeline.recheck import Recheck
from sexton.recycle.pipeline.resolve import Resolver
from sexton.recycle.pipeline.settle import Settler
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


class Steps:
    """One of each step, shared by all ranges of a worker."""

    def __init__(self, parts: Parts) -> None:
        stores, vaults, owner = parts.stores, parts.vaults, parts.owner
        self.resolver = Resolver(stores, vaults, owner, parts.listings)
        self.recheck = Recheck(stores, vaults, owner)
        self.settler = Settler(stores, owner, parts.log, parts.deleter)
