"""Vaults: where objects are, whether each can be proved, and how fast it is deleted from."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.interfaces.api.pools import long
from sexton.interfaces.api.problems import OtherChange
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.paces import places_of
from sexton.interfaces.console.visit import CurrentVisit
from sexton.interfaces.probe_rows import feature_rows
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Grant

routes = APIRouter(prefix=f"{session.PATH}/vaults", route_class=GuardedPage)


@routes.get("")
@long
def vaults(visit: CurrentVisit, prove: bool = False) -> Response:
    """Show the vaults of an instance; ``prove``: compare each marker now."""
    listed = visit.ask("vault list", instance=visit.instance, prove=prove).items
    specs = visit.service.stores.registry.vaults(visit.instance)
    return visit.show(
        "vaults.html",
        "vaults",
        cli=f"sexton vault list {visit.instance}",
        instance=visit.instance,
        vaults=listed,
        prove=prove,
        places=places_of(visit, specs),
        probes={spec.name: feature_rows(spec.probe) for spec in specs if spec.probe is not None},
    )


@routes.post("/cap")
def cap(visit: CurrentVisit) -> Response:
    """Cap the deletions in a vault, or remove its cap."""
    vault, rate = visit.form.get("vault", ""), visit.form.get("keys_per_second", "")
    visit.caller.require(Grant.OPERATE, visit.instance)
    caps = {cap.vault: cap.keys_per_second for cap in visit.service.stores.paces.caps(visit.instance)}
    if visit.form.get("shown", "") != str(caps.get(vault, "")):
        raise OtherChange(f"vault {vault} has another cap by now than the page showed; look at it again")
    if not rate:
        visit.ask("vault uncap")
        return visit.done(f"Vault {vault} has no cap.", "vaults")
    if not rate.isascii() or not rate.isdecimal() or len(rate) > 9:
        raise BadInput("write a cap as a whole number of keys per second, or nothing to remove it")
    cap = visit.ask("vault cap", rate=int(rate))
    return visit.done(f"At most {cap.keys_per_second:,} keys per second are deleted in vault {vault}.", "vaults")


@routes.post("/trust")
def trust(visit: CurrentVisit) -> Response:
    """Allow this database to delete in a vault in which a newer copy of it has deleted."""
    vault = visit.form.get("vault", "")
    trusted = visit.ask("vault trust")
    return visit.done(f"Vault {vault} belongs to this database again, whose newest round is {trusted.round}.", "vaults")
