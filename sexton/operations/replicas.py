"""Replicas of tablets on backends, the reports of backends, and which binlogs these may delete."""

from typing import Annotated

from pydantic import FailFast, Field

from sexton.kernel.message import Page, StrictMessage
from sexton.operations.binlogs import Db, Forgotten
from sexton.operations.fields import ROWS, Flag, Instance, Reason
from sexton.operations.registry import OF_NODE, READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.replication.agent.model import ID, CutDone
from sexton.replication.binlog.model import AcknowledgeResult, CutPage
from sexton.replication.journal.model import Follower
from sexton.replication.replicas import policy
from sexton.replication.replicas.model import (
    MAX_REPORTED_COPIES,
    BackendStanding,
    Placement,
    Placements,
    PlaceResult,
    Replica,
    ReplicaReport,
    ReportReceipt,
)

BACKEND_PATH = "/v1/backends/{backend}"
TabletId = Annotated[str, Flag(shown="TABLET"), Field(pattern=rf"^{ID}$", description="The tablet.")]
Backend = Annotated[str, Flag(shown="BACKEND"), Field(pattern=rf"^{ID}$", description="The backend.")]


class CutsDone(StrictMessage):
    """The binlog versions that a backend has deleted. ``instance``: Sexton's backend workers name it here."""

    instance: Annotated[str, Field(max_length=63)] = ""
    done: Annotated[tuple[CutDone, ...], FailFast(), Field(max_length=MAX_REPORTED_COPIES)]


class ShownReplica(Replica):
    """A replica. ``faults``: what is wrong with it now; ``need``: the first version that it still has to get."""

    faults: str = ""
    need: int | None = None


class Replicas(Page[ShownReplica]):
    """Replicas. Of a tablet also ``need``, the first version that one still has to get, and whose need ``decides``.

    ``now_at``: the database's time.
    """

    need: int | None = None
    decides: str = ""
    now_at: int = 0


@operation(
    "replica place",
    "PUT /v1/databases/{db}/tables/{table}/replicas",
    Grant.OWNER,
    Logged(
        # The drop of a partition deletes its binlogs.
        lambda db, table, placements, **_: (
            f"{db}/{table}: dropped {len(d):,}: {', '.join(d)}" if (d := placements.dropped) else f"{db}/{table}"
        ),
        routine=lambda placements, **_: not placements.dropped,
    ),
    is_large=True,
)
def place_replicas(call: Call, db: Db, table: Db, placements: Placements, *, instance: Instance = "") -> PlaceResult:
    """Store where the copies of some partitions are, before a copy gets its first version."""
    return call.stores.binlogs.placements.place(instance, Placement(db=db, table=table, **dict(placements)))


@operation(
    "replica report",
    f"POST {BACKEND_PATH}/report",
    Grant.OPERATE,
    Logged("{backend}", routine=True, node="{backend}"),
    is_large=True,
)
def report(call: Call, backend: Backend, body: ReplicaReport, *, instance: Instance = "") -> ReportReceipt:
    """Store a backend's report of its copies. Outdated reports and other backends' copies are ignored."""
    return call.stores.binlogs.reports.accept(instance, backend, body)


@operation("replica list", "GET /v1/replicas", Grant.READ, READS)
def unwell(
    call: Call,
    instance: Instance = "",
    *,
    every: Annotated[bool, Flag("--all"), Field(description="Healthy replicas, too.")] = False,
    limit: Annotated[int, Field(ge=1, le=ROWS, description="How many at most.")] = ROWS,
) -> Replicas:
    """Print unhealthy replicas, by tablet; a thousand at most.

    needs: the first version that the replica still has to get. last failed: a version that it is missing, to be
    repaired.

    Example: sexton replica list
    """
    rows, now = call.stores.binlogs.replicas.list_unhealthy(instance, limit + 1, every=every)
    shown = (ShownReplica(**r.model_dump(), faults=policy.describe_faults(r, now)) for r in rows[:limit])
    return Replicas(items=tuple(shown), more=len(rows) > limit, now_at=now)


@operation("replica explain", "GET /v1/replicas/{tablet}", Grant.READ, READS)
def replicas(call: Call, tablet: TabletId, *, instance: Instance = "") -> Replicas:
    """Explain the replicas of a tablet: what each still needs, which one decides, and what may be deleted.

    Example: sexton replica explain 10021
    """
    rows, now = call.stores.binlogs.replicas.tablet(instance, tablet)
    lowest = policy.lowest_needed_version(rows, now)
    need, deciding = (None, None) if lowest is None else lowest
    shown = (
        ShownReplica(**r.model_dump(), faults=policy.describe_faults(r, now), need=policy.need(r, now)) for r in rows
    )
    decides = "" if deciding is None else deciding.backend
    return Replicas(items=tuple(shown), need=need, decides=decides, now_at=now)


@operation(
    "replica full-copy",
    "POST /v1/replicas/{tablet}/{backend}/full-copy",
    Grant.ADMIN,
    Logged("{tablet} on {backend}"),
)
def full_copy(call: Call, tablet: TabletId, backend: Backend, *, reason: Reason, instance: Instance = "") -> Replica:
    """Declare that a replica needs a full copy.

    Versions are no longer retained for it. The replica counts again when it has reported that it has every version that
    may have been deleted.

    Example: sexton replica full-copy 10021 be-3 --reason 'its disk is gone'
    """
    return call.stores.binlogs.replicas.full_copy(instance, tablet, backend, reason)


@operation("replica backends", "GET /v1/backends", Grant.READ, READS)
def backends(call: Call, instance: Instance = "") -> Page[BackendStanding]:
    """Print backends: when each reported and pulled, and the numbers of its replicas.

    Example: sexton replica backends
    """
    from sexton.replication.replicas.sql import figures

    with call.deployment.db.read() as c:
        return Page[BackendStanding](items=tuple(figures.backend_standings(call.deployment.db, c, instance)))


@operation("replica decommission", f"DELETE {BACKEND_PATH}", Grant.ADMIN, Logged("{backend}", asks=True, once=True))
def decommission(call: Call, backend: Backend, *, instance: Instance = "") -> Forgotten:
    """Forget a backend that will never return.

    Its replicas are forgotten too, and nothing is retained for them any longer. Refused if one of its tablets has no
    other healthy replica.

    Example: sexton replica decommission be-3
    """
    return Forgotten(replicas=call.stores.binlogs.placements.decommission(instance, backend))


@operation("binlog cuts", "GET /v1/nodes/{node}/cuts", Grant.OPERATE, OF_NODE, is_for_programs=True)
def cuts(
    call: Call,
    node: Backend,
    *,
    after: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9.-]{0,128}$", description="Only copies whose uids come after this one.")
    ] = "",
    limit: Annotated[int, Field(ge=1, le=1_000, description="How many at most.")] = 1_000,
    queue: Annotated[bool, Field(description="Only what waits in its queue.")] = False,
    instance: Instance = "",
) -> CutPage:
    """Grant a backend the versions up to which it may delete its copies' binlogs, page by page. It is permanent."""
    return call.stores.binlogs.sender.page(instance, node, after, limit, queue=queue)


@operation("binlog cuts-done", "POST /v1/nodes/{node}/cuts", Grant.OPERATE, OF_NODE, is_large=True)
def acknowledge_cuts(call: Call, node: Backend, body: CutsDone, *, instance: Instance = "") -> AcknowledgeResult:
    """Store the versions that a backend has deleted. Versions beyond its grant are ignored."""
    return call.stores.binlogs.sender.acknowledge(instance, node, body.done)


class ShownFollower(Follower):
    """A follower of the journal. ``behind``: how many entries it has not applied."""

    behind: int = 0


class Followers(Page[ShownFollower]):
    """The followers of a journal, the slowest first, and the number of the journal's last entry."""

    head: int


@operation("binlog followers", "GET /v1/journal/followers", Grant.READ, READS)
def followers(call: Call, instance: Instance = "") -> Followers:
    """Print the followers of the journal, the slowest first. Entries that a follower still needs are kept for it.

    Example: sexton binlog followers
    """
    journal = call.stores.binlogs.journal
    head = journal.head(instance)
    rows = (ShownFollower(**f.model_dump(), behind=max(0, head - f.applied)) for f in journal.followers(instance))
    return Followers(items=tuple(rows), head=head)


@operation(
    "binlog remove-follower", "POST /v1/journal/followers/remove", Grant.OPERATE, Logged("{follower}", once=True)
)
def remove_follower(
    call: Call,
    follower: Annotated[str, Field(min_length=1, max_length=128, description="Its name.")],
    *,
    instance: Instance = "",
) -> None:
    """Remove a follower that never returns: no entries are kept for it. If it returns, it may have to start over.

    Example: sexton binlog remove-follower fe-3
    """
    call.stores.binlogs.journal.forget(instance, follower)
