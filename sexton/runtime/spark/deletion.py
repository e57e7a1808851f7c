"""Delete a part of a batch's stored files on an executor, with the same code as a control worker.

An executor reads its pages, renews the lease every 3 s, verifies lease and vault before each page, stays within its
share of the pace, stores outcomes page by page and writes the audit. So a repeated part repeats no page whose outcome
is stored.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pyarrow as pa
from pydantic import Field

from config.settings import EngineSettings
from sexton.database.engine import AWAY, first_line
from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.kernel.process import search_cycles_rarely
from sexton.marks.model import WriteToken
from sexton.operators.controls.model import Control
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.ranges import GROUP_FILES
from sexton.recycle.pipeline.settle import log_deletions
from sexton.runtime.engine import Engine
from sexton.runtime.spark.locations import ConnectionTarget

RESULT = pa.schema([("result", pa.string())])


class Work(Message):
    """The settings of an executor's engine. ``requests``: under way at the same time in one task."""

    where: ConnectionTarget
    requests: int
    audit_url: str = ""
    audits: bool = True
    """Whether executors write the audit; otherwise the process that settles does."""
    controls: tuple[Control, ...] = ()


class DeleteOrder(Message):
    """Delete files of a batch. Each task has a part: the files numbered after the first number, up to the second.

    ``excluded_vaults`` and ``faults``: vaults that the round, and the range so far, exclude, with the reason.
    """

    work: Work
    token: WriteToken
    parts: tuple[tuple[int, int], ...]
    excluded_vaults: dict[str, str]
    faults: dict[str, str]


class PartResult(Message):
    """The result of one part: excluded vaults, whether the audit is complete, and the error that stopped it, if any."""

    faults: dict[str, str]
    logged: bool
    fault_details: dict[str, str] = Field(default_factory=dict)
    stopped: str = ""
    error: str = ""


class ExecutorDeletion:
    """A function for ``mapInArrow``, with one part in a partition: takes numbers of parts, returns results as JSON."""

    def __init__(self, order: DeleteOrder) -> None:
        self._order = order

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = self._order
        for batch in batches:
            results = [_delete(order, *order.parts[n]).model_dump_json() for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"result": results}, schema=RESULT)


def _delete(order: DeleteOrder, after: int, to: int) -> PartResult:
    """Delete one part. An error is part of the result: a failed job would hide it, and end all parts."""
    engine, token = engine_of(order.work), order.token
    # The driver sends the heartbeat: a task stops with its process, or when it loses its lease.
    active_lease = ActiveLease(engine.leases, engine.stores.controls, token.lease, lambda: None, order.excluded_vaults)
    for vault, reason in order.faults.items():
        active_lease.add_fault(vault, reason, "the driver cannot use it")
    stopped = error = ""
    try:
        with engine.deleter.begin(token, active_lease, after) as deletion:
            deletion.release_up_to(to)
            # The audit of one group of files is written while the next one is deleted.
            for first, last in pairwise((*range(after, to, GROUP_FILES), to) if order.work.audits else ()):
                deletion.wait_for(last)
                log_deletions(engine.audit, active_lease, engine.stores.pipeline.outcomes.between(token, first, last))
            deletion.finish()
    except (SextonError, *AWAY) as e:
        stopped = type(e).__name__
        error = str(e) if isinstance(e, SextonError) else f"the database answered an executor: {first_line(e)}"
    finally:
        engine.stores.db.close()  # an idle process keeps no connection; the next task opens one
    faults = active_lease.faults
    return PartResult(
        # For those of the driver an executor must not exclude a vault.
        faults={vault: reason for vault, reason in faults.items() if order.faults.get(vault) != reason},
        fault_details=active_lease.fault_details,
        # With a fault, files may be untried or not logged: the process that settles audits the whole part.
        logged=order.work.audits and not stopped and not faults,
        stopped=stopped,
        error=error[:500],
    )


@cache
def engine_of(work: Work) -> Engine:
    """Return the engine of this process; the pace that it has learned of each store outlives a task."""
    search_cycles_rarely()
    settings = EngineSettings(
        deployment=work.where.deployment,
        endpoint_url=work.where.endpoint_url,
        trust=work.where.trust,
        controls=work.controls,
        requests_at_once=work.requests,
        audit_url=work.audit_url,
    )
    return Engine(work.where.database(connections=1), settings)
