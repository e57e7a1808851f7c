"""The mark of an instance that was dropped: everything in the catalog's folders of all vaults, then every record."""

from collections.abc import Sequence

from sexton.marks.whole import WHOLE
from sexton.owners.catalog import tenant
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction


def _live(_tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    """Return marks that stand for no dropped instance."""
    return [id_ for id_ in ids if id_ != WHOLE.id]


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    if WHOLE.id in ids:
        tenant.forget(tx)


KIND = CatalogKind(name=WHOLE.kind, expand=tenant.expand, forget=_forget, live=_live)
