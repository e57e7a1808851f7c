"""How fast the vaults of a page's instance are deleted from."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

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
