"""A database small enough to read in ten minutes, whose garbage Sexton collects.

Tables consist of *rowsets*: immutable groups of files in object storage, each covering a range of versions. Metadata
is in SQL, in Sexton's database: so one transaction can publish data and settle its marks. The database imports only
``sexton.contract`` of Sexton; its sync job, its regions and its binlogs import only ``sexton.client``. Read it in this
order:

1. ``schema``    the metadata tables, the view ``sexton_live``, and how the database is opened;
2. ``vault``     files, written and read by a thread pool; ``rowsets``, the rows about them and the marking statement;
3. ``database``  the operations: each comment says which transaction calls Sexton, and why that one;
4. ``sync``      a job that copies a table while Sexton's rounds continue.

minidb also has *regions*: their rows are on a write-ahead log before they are in files, and are read from the log again
after a crash. Many regions share a topic of the log; Sexton purges it below the first entry that any of them needs:

5. ``logs``      the log, and how rows are written to it; ``manifests``, the state of a region that survives a crash;
6. ``regions``   append, flush, move: what is durable at which moment; ``maps``, which regions share which topic;
7. ``node``      heartbeats and replays, in which order, and what another order would lose; ``serving``, HTTP.

And it has *binlogs*: the changes of each commit, for a while. Storage backends store them beside copies of tablets, and
repair copies from them; Sexton cuts binlogs that have expired and that no copy or consumer lacks:

8. ``metastore`` and ``backends``  copies and their versions: on disk, lost, repaired, and reported to Sexton;
9. ``edits`` and ``binlogs``       the leader: commits, placements and drops, and the order in which it sends them;
10. ``follower``                   its records and copies, kept equal to the leader's by the journal.
"""

from examples.minidb.database import Corrupt, MiniDB
from examples.minidb.rowsets import MiniDBError, Size
from examples.minidb.schema import open_engine
from examples.minidb.vault import Vault

__all__ = ["Corrupt", "MiniDB", "MiniDBError", "Size", "Vault", "open_engine"]
