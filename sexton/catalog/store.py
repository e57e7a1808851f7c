"""The reference catalog, whole: what a database does with its metadata, each operation one transaction.

It tells Sexton of garbage through ``sexton.contract``, inside its own transactions, as any owner would.
"""

from sexton.catalog.compaction import Compaction
from sexton.catalog.drops import Drops
from sexton.catalog.loads import Loads
from sexton.catalog.tree import Tree


class Catalog(Tree, Loads, Compaction, Drops):
    """The catalog of one instance: ``Catalog(db, instance)``. ``tables.create(db)`` must have been called once."""
