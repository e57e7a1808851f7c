"""What a kind of mark says about itself; the rest of its life is the engine's."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog.scope import CatalogTransaction


def nothing(_scope: CatalogTransaction, _ids: Sequence[str]) -> Collection[str]:
    """Return no ids."""
    return ()


@dataclass(frozen=True)
class CatalogKind:
    """One kind of the catalog's marks. Its functions take many marks at once and need a few statements for all."""

    name: str
    retention: str
    """The setting under ``[recycle]`` that says how long its marks stay; empty: due at once."""
    expand: Callable[[CatalogTransaction, Sequence[DueMark]], Mapping[Ref, Expansion]]
    """What the marks stand for."""
    forget: Callable[[CatalogTransaction, Sequence[str]], None]
    """Remove the records of marks whose files are gone; never of something that was not dropped or aborted."""
    live: Callable[[CatalogTransaction, Sequence[str]], Collection[str]]
    """Which of the ids are live, whatever was marked."""
    mended: Callable[[CatalogTransaction, Sequence[str]], Collection[str]] = nothing
    """Of which ids, set aside for a record that could not be read, the record can be read now."""
