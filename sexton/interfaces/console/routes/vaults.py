"""Vaults: where objects are, whether each can be proved, and how fast it is deleted from."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.responses import Response

from sexton.interfaces.api.pools import long
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.interfaces.probe_rows import feature_rows
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Grant
from sexton.recycle.pacing.model import PlaceFigures
from sexton.recycle.pacing.policy import vault_of
from sexton.storage.model import VaultSpec


@pages.get("/vaults")
@long
def vaults(visit: CurrentVisit, prove: bool = False) -> Response:
    """Show the vaults of an instance, or of all; ``prove``: compare each marker now."""
    listed = visit.ask("vault list", instance=visit.scope, prove=prove).items
    specs = visit.service.stores.registry.vaults(visit.scope)
    return visit.about(
        "vaults",
        "sexton vault list",
        vaults=listed,
        prove=prove,
        places=places_of(visit, specs),
        probes={f"{s.instance}/{s.name}": feature_rows(s.probe) for s in specs if s.probe is not None},
    )


@pages.post("/vaults/cap")
def cap(visit: CurrentVisit) -> Response:
    """Cap the deletions in a vault, or remove its cap."""
    vault = visit.form.get("vault", "")
    visit.caller.require(Grant.OPERATE, visit.instance)
    caps = {cap.vault: cap.keys_per_second for cap in visit.service.stores.paces.caps(visit.instance)}
    visit.agreed("shown", caps.get(vault, ""), f"vault {vault} has another cap by now than the page showed; look again")
    if "rate" not in visit.form:  # a form of another version of this page must not remove a cap
        raise BadInput("the form names no rate; open the page again, then send it")
    return visit.sent("vault cap" if visit.form["rate"] else "vault uncap", "vaults")


def places_of(visit: CurrentVisit, specs: Sequence[VaultSpec]) -> Mapping[str, Sequence[PlaceFigures]]:
    """Return INSTANCE/VAULT → how fast the places of the vault are deleted from."""
    places: defaultdict[str, list[PlaceFigures]] = defaultdict(list)
    for figures in visit.service.stores.paces.figures():
        vault = vault_of(figures.place, specs, visit.service.settings.s3.endpoint_url)
        if vault is not None:
            places["/".join(vault)].append(figures)
    return places


class RateLimit(NamedTuple):
    """What bounds the deletions in a vault: its cap, or what its store was found to allow."""

    keys_per_second: int
    is_cap: bool
    throttled_at: int | None


def rate_limits(places: Mapping[str, Sequence[PlaceFigures]], caps: Mapping[str, int]) -> Mapping[str, RateLimit]:
    """Return vault → what bounds it: the lower of its cap and of what its store allows. Pure.

    What a store allows is known where each place from which a worker deletes now was refused requests.

    Args:
        places: vault → its places.
        caps: vault → keys per second.
    """
    limits: dict[str, RateLimit] = {}
    for vault, of_vault in places.items():
        active = [figures for figures in of_vault if figures.workers]
        refused = [figures.throttled_at for figures in active if figures.throttled_at is not None]
        if active and len(refused) == len(active):
            limits[vault] = RateLimit(sum(figures.keys_per_second for figures in active), False, max(refused))
    for vault, keys_per_second in caps.items():
        limit = limits.get(vault, RateLimit(keys_per_second, True, None))
        if keys_per_second <= limit.keys_per_second:
            limits[vault] = limit._replace(keys_per_second=keys_per_second, is_cap=True)
    return limits
