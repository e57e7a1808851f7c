"""Assemble the SQL stores of the pipeline, by what they are about."""

from collections.abc import Sequence

from sexton.database.engine import Database
from sexton.marks.sql.keeper import Keeper
from sexton.operators.controls.store import ControlStore
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.pipeline.sql.due_marks import DueMarkStore
from sexton.recycle.pipeline.sql.files import FileStore, OutcomeStore
from sexton.recycle.pipeline.sql.owner_marks import OwnerMarkStore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.pipeline.sql.settlement import SettlementStore


class Stores:
    """Everything that the pipeline reads and writes. Writes raise ``LeaseLost`` if their token is not the latest."""

    def __init__(self, db: Database, controls: ControlStore, keepers: Sequence[Keeper]) -> None:
        """``keepers``: in order of precedence."""
        self.batches = BatchStore(db)
        self.due_marks = DueMarkStore(db)
        self.files = FileStore(db)
        self.owner_marks = OwnerMarkStore(db)
        self.claims = ClaimStore(db, controls, keepers)
        self.outcomes = OutcomeStore(db)
        self.settlements = SettlementStore(db)
        self.quarantine = QuarantineStore(db)
