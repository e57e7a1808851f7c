"""How fast the vaults of a page's instance are deleted from."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sexton.interfaces.console.visit import CurrentVisit
from sexton.recycle.pacing.model import PlaceFigures
from sexton.recycle.pacing.policy import vault_of
from sexton.storage.model import VaultSpec


def places_of(visit: CurrentVisit, specs: Sequence[VaultSpec]) -> Mapping[str, Sequence[PlaceFigures]]:
    """Return how fast the places of each vault are deleted from."""
    places: defaultdict[str, list[PlaceFigures]] = defaultdict(list)
    for figures in visit.service.stores.paces.figures():
        vault = vault_of(figures.place, specs, visit.service.settings.s3.endpoint_url)
        if vault is not None:
            places[vault[1]].append(figures)
    return places


class RateLimit(NamedTuple):
    """What bounds the deletions in a vault: its cap, or what its store was found to allow."""

    keys_per_second: int
    is_cap: bool
    throttled_at: int | None


def limits_of(visit: CurrentVisit, instance: str, specs: Sequence[VaultSpec]) -> Mapping[str, RateLimit]:
    """Return the limit of each of these vaults of an instance that has one now."""
    caps = {cap.vault: cap.keys_per_second for cap in visit.service.stores.paces.caps(instance)}
    return rate_limits(places_of(visit, specs), caps)


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
