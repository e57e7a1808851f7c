"""What the steps of the pipeline work with: its SQL stores, and the port of deletion.

Threads of this process delete, or Spark executors.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from sexton.database.engine import Database
from sexton.marks.model import WriteToken
from sexton.marks.sql.commits import CommitStore
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.store import ControlStore
from sexton.owners.port import Owner
from sexton.recycle.audit.writer import ParquetAudit
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.pipeline.sql.due_marks import DueMarkStore
from sexton.recycle.pipeline.sql.files import FileStore, OutcomeStore
from sexton.recycle.pipeline.sql.owner_marks import OwnerMarkStore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.pipeline.sql.settlement import SettlementStore
from sexton.storage.port import Vaults


class Stores:
    """Everything that the pipeline reads and writes. Writes raise ``LeaseLost`` if their token is not the latest."""

    def __init__(self, db: Database, controls: ControlStore, keepers: Sequence[Keeper], commits: CommitStore) -> None:
        """``keepers``: in order of precedence."""
        self.batches = BatchStore(db)
        self.due_marks = DueMarkStore(db)
        self.files = FileStore(db)
        self.owner_marks = OwnerMarkStore(db)
        self.commits = commits
        self.claims = ClaimStore(db, controls, keepers)
        self.outcomes = OutcomeStore(db)
        self.settlements = SettlementStore(db)
        self.quarantine = QuarantineStore(db)


class Deletion(Protocol):
    """One deletion of a batch's undone files, while more of them are claimed.

    An error that ends it (a lost lease, a halt, a database that does not answer) is raised by the next call.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Stop, unless it has ended."""

    def release_up_to(self, to: int) -> None:
        """Let files up to this number be deleted: each of the batch up to it is claimed, or will not be claimed."""
        ...

    def wait_for(self, to: int) -> None:
        """Wait until every file up to this number was tried, or is skipped."""
        ...

    def has_tried(self, to: int) -> bool:
        """Return whether every file up to this number was tried, or is skipped."""
        ...

    def logged(self, after: int, to: int) -> bool:
        """Return whether the deletion itself logged the outcomes of these files."""
        ...

    def finish(self) -> None:
        """Wait until every claimed file was tried; no more will be claimed."""
        ...


class Deleter(Protocol):
    """Deletes the files of batches: ``delete.ThreadDeleter``, or ``SparkDeleter`` of runtime/spark/deleter.py."""

    leaves_requests: bool
    """Whether a request may be on its way when its file is done: Spark may repeat a task whose executor it has lost."""

    def begin(self, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> Deletion:
        """Return a deletion of the batch's files numbered above ``after``, a context manager."""
        ...


class Parts(NamedTuple):
    """What the steps of a worker work with.

    ``deleter``: threads of this process, or executors. ``listings``: prefixes listed at the same time
    (``recycle_pool_parallelism``).
    """

    stores: Stores
    leases: LeaseStore
    controls: ControlStore
    vaults: Vaults
    owner: Owner
    log: ParquetAudit
    deleter: Deleter
    listings: int = 8
