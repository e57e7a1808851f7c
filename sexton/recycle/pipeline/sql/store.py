"""Assemble the SQL stores of the pipeline, by what they are about."""

from collections.abc import Sequence

from sexton.database.engine import Database
from sexton.marks.sql.keeper import Keeper
from sexton.operators.controls.store import ControlStore
from sexton.recycle.pipeline.port import Stores
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.pipeline.sql.due_marks import DueMarkStore
from sexton.recycle.pipeline.sql.fencing import FenceStore
from sexton.recycle.pipeline.sql.files import FileStore
from sexton.recycle.pipeline.sql.outcomes import OutcomeStore
from sexton.recycle.pipeline.sql.owner_marks import OwnerMarkStore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.pipeline.sql.settlement import SettlementStore


def pipeline_stores(db: Database, controls: ControlStore, keepers: Sequence[Keeper]) -> Stores:
    """Return the stores over one database; ``keepers``: in order of precedence."""
    return Stores(
        batches=BatchStore(db),
        due_marks=DueMarkStore(db),
        files=FileStore(db),
        fences=FenceStore(db),
        owner_marks=OwnerMarkStore(db),
        claims=ClaimStore(db, controls, keepers),
        outcomes=OutcomeStore(db),
        settlements=SettlementStore(db),
        quarantine=QuarantineStore(db),
    )
