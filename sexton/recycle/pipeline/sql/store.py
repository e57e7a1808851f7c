"""The store of marks, whole: batches and due selection, resolved files, claims, removals."""

from sexton.database.engine import Database
from sexton.operators.controls.store import ControlStore
from sexton.protection.sql.keeper import Protections
from sexton.recycle.pipeline.sql.batches import Batches
from sexton.recycle.pipeline.sql.claim import Claims
from sexton.recycle.pipeline.sql.fencing import Fencing
from sexton.recycle.pipeline.sql.files import Files
from sexton.recycle.pipeline.sql.settlement import Removals


class MarkStore(Batches, Files, Fencing, Claims, Removals):
    """Everything a round does to marks, over one ``Database``. Implements ``recycle.port.Marks``."""

    def __init__(self, db: Database, controls: ControlStore | None = None) -> None:
        """``controls``: with what this process' settings add; by default the rows alone."""
        self._db = db
        self._controls = controls or ControlStore(db)
        self._protections = Protections(db)
