"""The reference catalog, whole: what a database does with its metadata, each operation one transaction.

It tells Sexton of garbage through ``sexton.contract``, inside its own transactions, as any owner would.
"""

from sexton.owners.catalog.compaction import Compaction
from sexton.owners.catalog.drops import Drops
from sexton.owners.catalog.loads import Loads
from sexton.owners.catalog.tree import Tree


class Catalog(Tree, Loads, Compaction, Drops):
    """The catalog of one instance: ``Catalog(db, instance)``. ``tables.create(db)`` must have been called once."""
