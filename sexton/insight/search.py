"""What a text that an operator searches may mean: a key, or its beginning, perhaps after what names its vault."""

from collections.abc import Iterable
from typing import NamedTuple

from sexton.storage.model import VaultSpec
from sexton.storage.object_names import url_roots

SEARCH_SECONDS = 30
"""How long a statement that searches marks may take: their owners decide how much there is to read."""


class SearchedPlace(NamedTuple):
    """The beginning of a key, in one vault or in any (None)."""

    vault: str | None
    beginning: str


def names_of(vaults: Iterable[VaultSpec], name: str) -> set[str]:
    """Return a name, and the key that is left of it in each vault whose name, location or prefix it begins with."""
    return {name} | {place.beginning for place in places_of(vaults, name)}


def places_of(vaults: Iterable[VaultSpec], text: str) -> set[SearchedPlace]:
    """Return what a text may mean as the beginning of a key: in any vault, or in the vault that it begins to name."""
    places = {SearchedPlace(None, text.lstrip("/"))}
    for vault in vaults:
        for start in (f"{vault.name}/", vault.prefix, f"{vault.location}/{vault.prefix}", *url_roots(vault)):
            if start and text.startswith(start):
                places.add(SearchedPlace(vault.name, text.removeprefix(start).lstrip("/")))
    return places
