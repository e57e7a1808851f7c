"""Deleting on an executor: a part of a batch's stored files, by the same sweep that a control worker runs.

An executor reads its pages, proves the lease every 5 s and the vault before each page, keeps its share of the pace,
stores outcomes page by page and tells the audit. So whoever repeats a part repeats nothing that was stored.
"""

from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from sexton.assembly import Engine
from sexton.control.model import Control
from sexton.errors import SextonError
from sexton.marks.model import Hand
from sexton.message import Message
from sexton.recycle.concluding import tell_audit
from sexton.recycle.holding import Holding
from sexton.spark.places import Where
from sexton.storage.model import PAGE_KEYS
from sexton.terms import Terms

TOLD = pa.schema([("told", pa.string())])


class Work(Message):
    """What an executor's engine is put together with. ``requests``: that one task has under way at a time."""

    where: Where
    requests: int
    audit_url: str = ""
    controls: tuple[Control, ...] = ()


class DeleteOrder(Message):
    """Delete the files of a batch by their numbers, a part for each task: after the one, up to the other.

    ``shut`` and ``faults``: vaults that the round, and the range so far, leave alone, and why.
    """

    work: Work
    hand: Hand
    parts: tuple[tuple[int, int], ...]
    shut: dict[str, str]
    faults: dict[str, str]


class PartTold(Message):
    """What became of one part: vaults left alone, whether the audit has all of it, and what stopped it, if anything."""

    faults: dict[str, str]
    audited: bool
    stopped: str = ""
    error: str = ""


class Deletion:
    """Takes numbers of parts and returns what became of each, as JSON. For ``mapInArrow``, one part in a partition."""

    def __init__(self, order: DeleteOrder) -> None:
        self._order = order.model_dump_json()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = DeleteOrder.model_validate_json(self._order)
        for batch in batches:
            told = [_delete(order, *order.parts[n]).model_dump_json() for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"told": told}, schema=TOLD)


def _delete(order: DeleteOrder, after: int, to: int) -> PartTold:
    """Delete one part. What stops it is told: a failed job would say it in a trace, and end its other parts."""
    engine, hand = _engine(order.work.model_dump_json()), order.hand
    holding = Holding(engine.leases, engine.controls, hand.lease, _alive, order.shut)
    for vault, reason in order.faults.items():
        holding.fault(vault, reason)
    try:
        with engine.sweeper.begin(hand, holding, after) as sweep:
            sweep.claimed(to)
            sweep.finish()
        untold = tell_audit(engine.audit, holding, engine.marks.outcomes_between(hand, after, to))
        return PartTold(faults=holding.faults, audited=not untold)
    except SextonError as e:
        return PartTold(faults=holding.faults, audited=False, stopped=type(e).__name__, error=str(e)[:500])
    finally:
        engine.db.close()  # an idle process keeps no connection; the next task opens one


@cache
def _engine(work: str) -> Engine:
    """Return the engine of this process: what it has learned of the stores' pace outlives a task."""
    told = Work.model_validate_json(work)
    terms = Terms(
        deployment=told.where.deployment,
        endpoint_url=told.where.endpoint_url,
        controls=told.controls,
        # All requests of a task together carry one page: so much is repeated where a process is killed.
        requests_at_once=told.requests,
        keys_a_request=max(1, PAGE_KEYS // told.requests),
        beside=False,
        audit_url=told.audit_url,
    )
    return Engine(told.where.database(connections=1), terms)


def _alive() -> None:
    """The heartbeat is the driver's; a task is stopped with its process, or by its lease."""
