"""Rounds: list them, look at one, and start one."""

from typing import Annotated

from pydantic import Field

from sexton.insight.views import RoundCounts
from sexton.kernel.message import Message, Page
from sexton.operations.fields import MAX_NUMBER, Before, Covered, Flag, Instance, Limit, StartedWork, page
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.recycle.rounds.model import RecycleRequest, RoundRow

RoundNumber = Annotated[int, Flag(shown="ROUND"), Field(ge=1, le=MAX_NUMBER, description="The round's number.")]


class RoundDetails(Message):
    """One round. ``progress``: how far it is; None: it has a report.

    ``worked_at``: when a worker last worked on it (ms since 1970); None: none does, because it waits or has ended.
    """

    round: RoundRow
    progress: RoundCounts | None = None
    worked_at: int | None = None


def instance_of(call: Call, round: int, **_: object) -> str:
    """Return the instance of a round."""
    return call.stores.reports.round(round).instance


@operation("round list", "GET /v1/instances/{instance}/rounds", Grant.READ, READS)
def rounds(call: Call, instance: Covered = None, *, after: Before = None, limit: Limit = 20) -> Page[RoundRow]:
    """Print the newest rounds.

    Example: sexton round list shop --last 5
    """
    return Page[RoundRow](**page(call.stores.reports.rounds(instance, limit + 1, before=after), limit))


@operation("round show", "GET /v1/rounds/{round}", Grant.READ, Logged("{round}", changes=False, of=instance_of))
def round_(call: Call, round: RoundNumber) -> RoundDetails:
    """Print the report of one round, or how far it is.

    Example: sexton round show 12 --watch
    """
    from sexton.insight.progress import round_progress
    from sexton.marks.sql.leases import renewed_at
    from sexton.recycle.rounds.sql.store import JOB

    row, db = call.stores.reports.round(round), call.deployment.db
    if row.report is not None:
        return RoundDetails(round=row)
    with db.read() as c:
        worked_at = renewed_at(db, c, row.instance, JOB)
    return RoundDetails(round=row, progress=round_progress(db, round), worked_at=worked_at)


@operation("round run", "POST /v1/instances/{instance}/rounds", Grant.OPERATE, Logged(once=True))
def run_round(call: Call, instance: Instance) -> StartedWork:
    """Start one round now and print its report.

    The round has a plan of its own. An observing instance deletes nothing.

    Ctrl-C stops waiting, not the round.

    Example: sexton round run shop
    """
    call.stores.controls.admit(instance)
    return call.start(RecycleRequest(instance=instance, requested_by=call.by))
