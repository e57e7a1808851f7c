"""The store of marks, whole: batches and due selection, resolved files, claims, removals."""

from sexton.control.store import ControlStore
from sexton.db.engine import Database
from sexton.marks.batches import Batches
from sexton.marks.claim import Claims
from sexton.marks.fencing import Fencing
from sexton.marks.protected import Protections
from sexton.marks.remove import Removals
from sexton.marks.resolve import Files


class MarkStore(Batches, Files, Fencing, Claims, Removals):
    """Everything a round does to marks, over one ``Database``. Implements ``recycle.port.Marks``."""

    def __init__(self, db: Database, controls: ControlStore | None = None) -> None:
        """``controls``: with what this process' settings add; by default the rows alone."""
        self._db = db
        self._controls = controls or ControlStore(db)
        self._protections = Protections(db)
