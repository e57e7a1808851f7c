"""The interface of a kind of marks: the functions in which kinds differ."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog.scope import CatalogTransaction


def nothing(_scope: CatalogTransaction, _ids: Sequence[str]) -> Collection[str]:
    """Return no ids."""
    return ()


@dataclass(frozen=True)
class CatalogKind:
    """One kind of the catalog's marks. Its functions take many marks at once, and need few statements for all."""

    name: str
    expand: Callable[[CatalogTransaction, Sequence[DueMark]], Mapping[Ref, Expansion]]
    """Return the files that the marks stand for."""
    forget: Callable[[CatalogTransaction, Sequence[str]], None]
    """Remove the records of marks whose files are deleted; never records of what was not dropped or aborted."""
    live: Callable[[CatalogTransaction, Sequence[str]], Collection[str]]
    """Return which of the ids are live, whatever was marked."""
    resolvable: Callable[[CatalogTransaction, Sequence[str]], Collection[str]] = nothing
    """Return those ids, quarantined for an unreadable record, whose record can be read now."""
