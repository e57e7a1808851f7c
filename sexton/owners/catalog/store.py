"""The operations of the reference catalog: those of a database on its metadata, each in one transaction.

The catalog marks garbage through ``sexton.contract`` inside its own transactions, as any owner does.
"""

from sexton.owners.catalog.compaction import Compaction
from sexton.owners.catalog.drops import Drops
from sexton.owners.catalog.loads import Loads
from sexton.owners.catalog.shows import Shows
from sexton.owners.catalog.tree import Tree


class Catalog(Tree, Loads, Compaction, Drops, Shows):
    """The catalog of one instance: ``Catalog(db, instance)``. ``tables.create(db)`` must have been called once."""
