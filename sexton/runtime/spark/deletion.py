"""Deleting on an executor: a part of a batch's stored files, by the same sweep that a control worker runs.

An executor reads its pages, proves the lease every 5 s and the vault before each page, keeps its share of the pace,
stores outcomes page by page and tells the audit. So whoever repeats a part repeats nothing that was stored.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pyarrow as pa

from config.engine_settings import EngineSettings
from sexton.database.engine import AWAY, first_line
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.marks.model import WriteToken
from sexton.operators.controls.model import Control
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.ranges import GROUP_FILES
from sexton.recycle.pipeline.settle import log_deletions
from sexton.runtime.engine import Engine
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.storage.model import PAGE_KEYS

TOLD = pa.schema([("told", pa.string())])


class Work(Message):
    """What an executor's engine is put together with. ``requests``: that one task has under way at a time."""

    where: ConnectionTarget
    requests: int
    audit_url: str = ""
    audits: bool = True
    """Whether executors tell the audit; else whoever settles does."""
    controls: tuple[Control, ...] = ()


class DeleteOrder(Message):
    """Delete the files of a batch by their numbers, a part for each task: after the one, up to the other.

    ``shut`` and ``faults``: vaults that the round, and the range so far, leave alone, and why.
    """

    work: Work
    token: WriteToken
    parts: tuple[tuple[int, int], ...]
    excluded_vaults: dict[str, str]
    faults: dict[str, str]


class PartTold(Message):
    """What became of one part: vaults left alone, whether the audit has all of it, and what stopped it, if anything."""

    faults: dict[str, str]
    logged: bool
    stopped: str = ""
    error: str = ""


class ExecutorDeletion:
    """Takes numbers of parts and returns what became of each, as JSON. For ``mapInArrow``, one part in a partition."""

    def __init__(self, order: DeleteOrder) -> None:
        self._order = order

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = self._order
        for batch in batches:
            told = [_delete(order, *order.parts[n]).model_dump_json() for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"told": told}, schema=TOLD)


def _delete(order: DeleteOrder, after: int, to: int) -> PartTold:
    """Delete one part. What stops it is told: a failed job would say it in a trace, and end its other parts."""
    engine, token = engine_of(order.work), order.token
    active_lease = ActiveLease(engine.leases, engine.controls, token.lease, _alive, order.excluded_vaults)
    for vault, reason in order.faults.items():
        active_lease.add_fault(vault, reason)
    try:
        with engine.deleter.begin(token, active_lease, after) as sweep:
            sweep.claimed(to)
            # The audit of a lap is told while the next one is deleted.
            for first, last in pairwise((*range(after, to, GROUP_FILES), to) if order.work.audits else ()):
                sweep.wait_for(last)
                log_deletions(engine.audit, active_lease, engine.stores.outcomes.between(token, first, last))
            sweep.finish()
        # With a fault something was not tried here, or not told: whoever settles tells all of it.
        return PartTold(faults=active_lease.faults, logged=order.work.audits and not active_lease.faults)
    except (SextonError, *AWAY) as e:
        why = str(e) if isinstance(e, SextonError) else f"the database answered an executor: {first_line(e)}"
        return PartTold(faults=active_lease.faults, logged=False, stopped=type(e).__name__, error=why[:500])
    finally:
        engine.db.close()  # an idle process keeps no connection; the next task opens one


@cache
def engine_of(work: Work) -> Engine:
    """Return the engine of this process: what it has learned of the stores' pace outlives a task."""
    terms = EngineSettings(
        deployment=work.where.deployment,
        endpoint_url=work.where.endpoint_url,
        controls=work.controls,
        # All requests of a task together carry one page: so much is repeated where a process is killed.
        requests_at_once=work.requests,
        keys_a_request=max(1, PAGE_KEYS // work.requests),
        audit_url=work.audit_url,
    )
    return Engine(work.where.database(connections=1), terms)


def _alive() -> None:
    """The heartbeat is the driver's; a task is stopped with its process, or by its lease."""
