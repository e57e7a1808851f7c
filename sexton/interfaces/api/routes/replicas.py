"""Copies of tablets: where they are, what backends report of them, and what these may let go (``sexton.replica``)."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.interfaces.api.caller import Asker, AtDesk, Instance, Reader
from sexton.operators.access.model import Grant
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.names import ID, NAME
from sexton.protocol.replicas import BackendReport, CutsDone, Decommissioned, FullCopy, Placements, Replicas
from sexton.replication.binlog.model import CutPage, Taken
from sexton.replication.replicas import policy
from sexton.replication.replicas.model import (
    Copy,
    Placed,
    Placement,
    Replica,
    ReplicaReport,
    ReportReceipt,
    Tablet,
    TabletReport,
)

routes = APIRouter(prefix="/v1")
Database = Annotated[str, Path(pattern=NAME)]
Table = Annotated[str, Path(pattern=NAME)]
Backend = Annotated[str, Path(pattern=ID)]
TabletId = Annotated[str, Path(pattern=ID)]
Uid = Annotated[str, Query(pattern=r"^[A-Za-z0-9.-]{0,128}$", description="only copies whose uids come after this one")]
Limit = Annotated[int, Query(ge=1, le=1_000)]


@routes.put("/databases/{db}/tables/{table}/replicas", max_body_size=MAX_ITEMS_BYTES)
def place(db: Database, table: Table, body: Placements, at: AtDesk, asker: Asker, instance: Instance) -> Placed:
    """Store where the copies of some partitions are: before each takes its first version."""
    asker.needs(Grant.OPERATE)
    tablets = tuple(
        Tablet(
            tablet=its.tablet,
            part=its.partition,
            copies=tuple(Copy(backend=copy.backend, uid=copy.uid) for copy in its.copies),
        )
        for its in body.tablets
    )
    order = Placement(db=db, table=table, tablets=tablets, dropped=body.dropped_partitions)
    if not order.dropped:
        return at.binlogs.placements.place(instance, order)
    with asker.recorded(at, "replica partitions dropped", instance, f"{db}/{table}: {', '.join(order.dropped)}"):
        return at.binlogs.placements.place(instance, order)


@routes.post("/backends/{backend}/report", max_body_size=MAX_ITEMS_BYTES)
def report(backend: Backend, body: BackendReport, at: AtDesk, asker: Asker, instance: Instance) -> ReportReceipt:
    """Take what a backend says of its copies: what is older than what is known, or of others, is ignored."""
    asker.needs(Grant.OPERATE, node=backend)
    tablets = tuple(TabletReport(**its.model_dump(exclude={"versions"}), ranges=its.versions) for its in body.tablets)
    order = ReplicaReport(boot=body.boot, sequence=body.sequence, tablets=tablets)
    return at.binlogs.reports.hear(instance, backend, order)


@routes.delete("/backends/{backend}")
def decommission(backend: Backend, at: AtDesk, asker: Asker, instance: Instance) -> Decommissioned:
    """Forget a backend that will never come back, with all of its copies; refused where one is a tablet's only one."""
    with asker.recorded(at, "replica decommission", instance, backend):
        asker.needs(Grant.ADMIN)
        return Decommissioned(replicas=at.binlogs.placements.decommission(instance, backend))


@routes.get("/replicas")
def unwell(at: AtDesk, _: Reader, instance: Instance, limit: Limit = 100) -> Replicas:
    """Return copies with which something is wrong, by tablet."""
    found, _now = at.binlogs.replicas.unwell(instance, limit)
    return Replicas(replicas=tuple(found))


@routes.get("/replicas/{tablet}")
def tablet(tablet: TabletId, at: AtDesk, _: Reader, instance: Instance) -> Replicas:
    """Return the copies of one tablet, and from which version on they need what there is."""
    found, now = at.binlogs.replicas.tablet(instance, tablet)
    least = policy.lowest(found, now)
    return Replicas(replicas=tuple(found), need=least[0] if least else None)


@routes.post("/replicas/{tablet}/{backend}/full-copy")
def full_copy(
    tablet: TabletId, backend: Backend, body: FullCopy, at: AtDesk, asker: Asker, instance: Instance
) -> Replica:
    """Say that a copy can only be repaired by a full copy, so that what it lacks need not be kept for it."""
    with asker.recorded(at, "replica full-copy", instance, f"{tablet} on {backend}", body.reason):
        asker.needs(Grant.ADMIN)
        return at.binlogs.replicas.full_copy(instance, tablet, backend, body.reason)


@routes.get("/nodes/{node}/cuts")
def cuts(
    node: Backend,
    at: AtDesk,
    asker: Asker,
    instance: Instance,
    after: Uid = "",
    limit: Limit = 1_000,
    queue: bool = False,
) -> CutPage:
    """Return up to which version the binlogs of a backend's copies may go, page by page. What was answered stands."""
    asker.needs(Grant.OPERATE, node=node)
    return at.binlogs.sender.page(instance, node, after, limit, queue=queue)


@routes.post("/nodes/{node}/cuts", max_body_size=MAX_ITEMS_BYTES)
def done(node: Backend, body: CutsDone, at: AtDesk, asker: Asker) -> Taken:
    """Note what is gone from a backend; more than was granted is ignored."""
    asker.needs(Grant.OPERATE, node=node)
    return at.binlogs.sender.acknowledge(at.registry.one(body.instance or None), node, body.done)
