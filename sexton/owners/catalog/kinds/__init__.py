"""The catalog's kinds of marks, one module for each; a new kind is added to ``KINDS`` here."""

from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.kinds import compacted, dropped, index, partition, prepared, table, tablet, txn_label

KINDS: dict[str, CatalogKind] = {
    module.KIND.name: module.KIND
    for module in (
        tablet,
        compacted,
        dropped,
        prepared,
        index,
        partition,
        table,
        txn_label,
    )
}
"""Name → kind."""
