"""The catalog's kinds of marks, one module for each; a new kind is added to ``KINDS`` here."""

from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.kinds import (
    compacted,
    dropped,
    index,
    partition,
    prepared,
    table,
    tablet,
    txn_label,
)

KINDS: dict[str, CatalogKind] = {
    kind.name: kind
    for kind in (
        tablet.KIND,
        compacted.KIND,
        dropped.KIND,
        prepared.KIND,
        index.KIND,
        partition.KIND,
        table.KIND,
        txn_label.KIND,
    )
}
"""Name → kind."""
