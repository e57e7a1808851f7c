"""A database small enough to read in ten minutes, and whose garbage Sexton collects.

Tables are made of *rowsets*: immutable groups of files in object storage, each covering a range of versions. Metadata
is in SQL, in the same database as Sexton's tables; that is what lets one transaction publish data and settle its marks.
Of Sexton it imports only ``sexton.contract``; its sync job, its regions and its binlogs only ``sexton.client``. Read
in this order:

1. ``schema``    the metadata tables, the view ``sexton_live``, and how the database is opened;
2. ``vault``     files, written and read by a thread pool; ``rowsets``, the rows about them and the marking statement;
3. ``database``  the operations: each says in which transaction it talks to Sexton, and why in that one;
4. ``sync``      a job that copies a table while Sexton's rounds go on.

Beside tables it has *regions*, whose rows are on a write-ahead log before they are in files, and are read from there
again after a crash. Many share a topic of the log, which Sexton purges below what the last of them needs:

5. ``logs``      the log, and how rows are written to it; ``manifests``, what of a region survives a crash;
6. ``regions``   append, flush, move: what is durable at which moment; ``maps``, which regions share which topic;
7. ``node``      heartbeats and replays: each says in which order, and what would be lost in another; ``serving``, HTTP.

And it has *binlogs*: what each commit changed, for a while. Storage backends keep them beside copies of tablets, which
are repaired from them; Sexton cuts what has expired and no copy or consumer lacks:

8. ``metastore`` and ``backends``  copies and their versions, as they are on disk, lost, repaired, and told to Sexton;
9. ``edits`` and ``binlogs``       the leader: commits, placements, drops, and in which order who hears of them;
10. ``follower``                   its records and copies, equal to the leader's by the journal.
"""

from examples.minidb.database import Corrupt, MiniDB
from examples.minidb.rowsets import MiniDBError, Size
from examples.minidb.schema import open_engine
from examples.minidb.vault import Vault

__all__ = ["Corrupt", "MiniDB", "MiniDBError", "Size", "Vault", "open_engine"]
