"""Binlogs of databases and tables: what is kept, who blocks a cut, and which replicas are at fault."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.routes import binlog_gc as gc_api
from sexton.interfaces.api.routes import binlogs as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Grant
from sexton.protocol.binlogs import CutApproval
from sexton.replication.replicas import policy

routes = APIRouter(prefix=f"{session.PATH}/binlogs", route_class=GuardedPage)
MAX_NAME, SHOWN, REPLICAS_SHOWN = 256, 1_000, 100


@routes.get("")
def binlogs(visit: CurrentVisit, after: str = "") -> Response:
    """Show the logs of an instance, their consumers, and replicas at fault."""
    instance = visit.instance
    db, _, table = after[:MAX_NAME].partition("/")
    visit.caller.require(Grant.READ, instance)
    logs = api.logs(visit.service, visit.caller, instance, db, table).logs
    replicas, now = visit.service.stores.binlogs.replicas.list_unhealthy(instance, REPLICAS_SHOWN + 1)
    return visit.show(
        "binlogs.html",
        "binlogs",
        cli=f"sexton binlog list {instance}",
        instance=instance,
        logs=logs,
        following=logs[-1].name if len(logs) >= SHOWN else "",
        consumers=api.consumers(visit.service, visit.caller, instance).consumers,
        replicas=[(replica, policy.describe_faults(replica, now)) for replica in replicas[:REPLICAS_SHOWN]],
        more_replicas=len(replicas) > REPLICAS_SHOWN,
    )


@routes.post("/approve")
def approve(visit: CurrentVisit) -> Response:
    """Approve a very large cut, after its last record was typed."""
    shown, typed = visit.form.get("upto", ""), visit.form.get("typed", "").replace(",", "")
    if typed != shown:
        raise BadInput(f"to approve this cut, type the number of its last record: {shown[:20]}")
    order = visit.read(
        CutApproval, upto=int(shown) if shown.isascii() and shown.isdecimal() and len(shown) < 20 else -1
    )
    db, table = visit.form.get("db", ""), visit.form.get("table", "")
    caller, service = visit.caller, visit.service
    if table:
        approved = gc_api.approve_table(db, table, order, service, caller, visit.instance)
    else:
        approved = gc_api.approve_database(db, order, service, caller, visit.instance)
    return visit.done(f"The next run cuts binlog {approved.name} up to record {order.upto:,}.", "binlogs")


@routes.post("/gc")
def collect(visit: CurrentVisit) -> Response:
    """Start the binlog GC now."""
    started = gc_api.start(visit.instance, visit.request, visit.service, visit.caller)
    return visit.done(f"The binlog GC of {started.instance} was started.", "binlogs")
