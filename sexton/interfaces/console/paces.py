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


ACTIVE_MS = 600_000


class RateLimit(NamedTuple):
    """What bounds the deletions in a vault: its cap, or what its store was found to allow."""

    keys_per_second: int
    is_cap: bool
    throttled_at: int | None


def limits_of(visit: CurrentVisit) -> Mapping[str, RateLimit]:
    """Return the limit of each vault of the page's instance that has one now.

    What a store allows is known where each place that is deleted from now was refused requests.
    """
    specs = visit.service.stores.registry.vaults(visit.instance)
    limits: dict[str, RateLimit] = {}
    capped = {cap.vault: cap.keys_per_second for cap in visit.service.stores.paces.caps(visit.instance)}
    for vault, places in places_of(visit, specs).items():
        active = [f for f in places if visit.now - f.updated_at < ACTIVE_MS]
        if active and all(f.throttled_at is not None for f in active):
            throttled_at = max(f.throttled_at or 0 for f in active)
            limits[vault] = RateLimit(sum(f.keys_per_second for f in active), False, throttled_at)
    for vault, keys_per_second in capped.items():
        limit = limits.get(vault, RateLimit(keys_per_second, True, None))
        if keys_per_second <= limit.keys_per_second:
            limits[vault] = limit._replace(keys_per_second=keys_per_second, is_cap=True)
    return limits
