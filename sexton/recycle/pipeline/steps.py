"""Assemble the steps of the pipeline, which ranges and adoption share."""

from typing import NamedTuple

from sexton.owners.port import Owner
from sexton.recycle.audit.port import DeletionLog
from sexton.recycle.pipeline.deleter import Deleter
from sexton.recycle.pipeline.finish import Finisher
from sexton.recycle.pipeline.port import Stores
from sexton.recycle.pipeline.recheck import Recheck
from sexton.recycle.pipeline.resolve import Resolver
from sexton.recycle.pipeline.settle import Settler
from sexton.storage.port import Vaults


class Steps(NamedTuple):
    """One of each step, shared by all ranges of a worker."""

    resolver: Resolver
    recheck: Recheck
    deleter: Deleter
    settler: Settler
    finisher: Finisher


def steps(stores: Stores, vaults: Vaults, owner: Owner, log: DeletionLog, deleter: Deleter, listings: int) -> Steps:
    """Return the steps; ``listings``: prefixes listed at the same time."""
    settler = Settler(stores, owner, log)
    return Steps(
        resolver=Resolver(stores, vaults, owner, listings),
        recheck=Recheck(stores, vaults, owner),
        deleter=deleter,
        settler=settler,
        finisher=Finisher(stores, settler, deleter),
    )
