"""Binlogs of databases and tables: what is kept, who blocks a cut, and which replicas are at fault."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.kernel.errors import BadInput

routes = APIRouter(prefix=f"{session.PATH}/binlogs", route_class=GuardedPage)
MAX_NAME, REPLICAS_SHOWN = 256, 100


@routes.get("")
def binlogs(visit: CurrentVisit, after: str = "") -> Response:
    """Show the logs of an instance, their consumers, and replicas at fault."""
    logs = visit.ask("binlog list", after=after[:MAX_NAME])
    replicas = visit.ask("replica list", limit=REPLICAS_SHOWN)
    return visit.show(
        "binlogs.html",
        "binlogs",
        cli=f"sexton binlog list {visit.instance}",
        instance=visit.instance,
        logs=logs.items,
        following=logs.next,
        consumers=visit.ask("binlog consumers").items,
        replicas=[(replica, replica.faults) for replica in replicas.items],
        more_replicas=replicas.more,
    )


@routes.post("/approve")
def approve(visit: CurrentVisit) -> Response:
    """Approve a very large cut, after its last record was typed."""
    shown, typed = visit.form.get("upto", ""), visit.form.get("typed", "").replace(",", "")
    if typed != shown:
        raise BadInput(f"to approve this cut, type the number of its last record: {shown[:20]}")
    approved = visit.ask("binlog approve")
    return visit.done(f"The next run cuts binlog {approved.name} up to record {int(shown):,}.", "binlogs")
