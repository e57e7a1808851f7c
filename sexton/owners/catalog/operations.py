"""What a meta service without a catalog of its own does through Sexton: the methods of the catalog as operations."""

from sexton.owners.catalog.store import Catalog
from sexton.owners.operations import from_method

_CHANGES = (
    Catalog.create_table,
    Catalog.add_partition,
    Catalog.add_index,
    Catalog.alter_index,
    Catalog.begin,
    Catalog.begin_sub,
    Catalog.prepare_rowsets,
    Catalog.write_rowset,
    Catalog.precommit,
    Catalog.commit,
    Catalog.abort,
    Catalog.start_compaction,
    Catalog.finish_compaction,
    Catalog.drop_table,
    Catalog.drop_index,
    Catalog.drop_partition,
    Catalog.drop_rowset,
    Catalog.undrop_table,
    Catalog.undrop_index,
    Catalog.undrop_partition,
)
_READS = (Catalog.show, Catalog.tablets, Catalog.rowsets)
OPERATIONS = (
    *(from_method(Catalog, method, reads=True) for method in _READS),
    *(from_method(Catalog, method) for method in _CHANGES),
)
