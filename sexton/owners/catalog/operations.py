"""What a meta service without a catalog of its own does through Sexton: the methods of the catalog as operations."""

from functools import partial

from sexton.owners.catalog.store import Catalog
from sexton.owners.operations import from_method

_operation = partial(from_method, Catalog)

OPERATIONS = (
    _operation(Catalog.show, reads=True),
    _operation(Catalog.create_table),
    _operation(Catalog.add_partition),
    _operation(Catalog.add_index),
    _operation(Catalog.alter_index),
    _operation(Catalog.tablets, reads=True),
    _operation(Catalog.rowsets, reads=True),
    _operation(Catalog.begin),
    _operation(Catalog.begin_sub),
    _operation(Catalog.prepare_rowsets),
    _operation(Catalog.write_rowset),
    _operation(Catalog.precommit),
    _operation(Catalog.commit),
    _operation(Catalog.abort),
    _operation(Catalog.start_compaction),
    _operation(Catalog.finish_compaction),
    _operation(Catalog.drop_table),
    _operation(Catalog.drop_index),
    _operation(Catalog.drop_partition),
    _operation(Catalog.drop_rowset),
    _operation(Catalog.undrop_table),
    _operation(Catalog.undrop_index),
    _operation(Catalog.undrop_partition),
)
