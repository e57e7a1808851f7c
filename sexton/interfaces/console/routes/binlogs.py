"""Binlogs of databases and tables: what is kept, who blocks a cut, and which replicas are at fault."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.routes import binlogs as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.operators.access.model import Grant
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
