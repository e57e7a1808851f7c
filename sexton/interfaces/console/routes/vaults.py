"""Vaults: where objects are, whether each can be proved, and how fast it is deleted from."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.routes import vaults as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.kernel.errors import BadInput
from sexton.protocol.operating import NewCap

routes = APIRouter(prefix=f"{session.PATH}/vaults", route_class=GuardedPage)


@routes.get("")
def vaults(visit: CurrentVisit, prove: bool = False) -> Response:
    """Show the vaults of an instance; ``prove``: compare each marker now."""
    listed = api.vaults(visit.instance, visit.service, visit.caller, prove).vaults
    cli = f"sexton vault list {visit.instance}"
    return visit.show("vaults.html", "vaults", cli=cli, instance=visit.instance, vaults=listed, prove=prove)


@routes.post("/cap")
def cap(visit: CurrentVisit) -> Response:
    """Cap the deletions in a vault, or remove its cap."""
    vault, rate = visit.form.get("vault", ""), visit.form.get("keys_per_second", "")
    if not rate:
        api.clear_cap(visit.instance, vault, visit.service, visit.caller)
        return visit.done(f"Vault {vault} has no cap.", "vaults")
    if not rate.isascii() or not rate.isdecimal() or len(rate) > 9:
        raise BadInput("write a cap as a whole number of keys per second, or nothing to remove it")
    order = visit.read(NewCap, keys_per_second=int(rate))
    api.cap(visit.instance, vault, order, visit.service, visit.caller)
    return visit.done(f"At most {order.keys_per_second:,} keys per second are deleted in vault {vault}.", "vaults")
