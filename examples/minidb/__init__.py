"""A database small enough to read in ten minutes, and whose garbage Sexton collects.

Tables are made of *rowsets*: immutable groups of files in object storage, each covering a range of versions. Metadata
is in SQL, in the same database as Sexton's tables; that is what lets one transaction publish data and settle its marks.
Of Sexton it imports only ``sexton.contract``, its sync job also ``sexton.client``. Read in this order:

1. ``schema``    the metadata tables, the view ``sexton_live``, and how the database is opened;
2. ``vault``     files, written and read by a thread pool; ``rowsets``, the rows about them and the marking statement;
3. ``database``  the operations: each says in which transaction it talks to Sexton, and why in that one.
"""

from examples.minidb.database import Corrupt, MiniDB
from examples.minidb.rowsets import MiniDBError, Size
from examples.minidb.schema import open_engine
from examples.minidb.vault import Vault

__all__ = ["Corrupt", "MiniDB", "MiniDBError", "Size", "Vault", "open_engine"]
