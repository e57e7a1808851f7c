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

    What a store allows is known only where it refused requests, and counts where it is deleted from now.
    """
    specs = visit.service.stores.registry.vaults(visit.instance)
    learned: dict[str, RateLimit] = {}
    for vault, places in places_of(visit, specs).items():
        active = [f for f in places if f.throttled_at is not None and visit.now - f.updated_at < ACTIVE_MS]
        if active:
            throttled_at = max(f.throttled_at or 0 for f in active)
            learned[vault] = RateLimit(sum(f.keys_per_second for f in active), False, throttled_at)
    capped = {cap.vault: cap.keys_per_second for cap in visit.service.stores.paces.caps(visit.instance)}
    for vault, keys_per_second in capped.items():
        limit = learned.get(vault, RateLimit(keys_per_second, True, None))
        if keys_per_second <= limit.keys_per_second:
            learned[vault] = limit._replace(keys_per_second=keys_per_second, is_cap=True)
    return learned
