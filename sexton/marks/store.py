"""The store of marks, whole: batches and due selection, resolved files, claims, removals."""

from sexton.marks.batches import Batches
from sexton.marks.claim import Claims
from sexton.marks.remove import Removals
from sexton.marks.resolve import Files


class MarkStore(Batches, Files, Claims, Removals):
    """Everything a round does to marks, over one ``Database``. Implements ``recycle.port.Marks``."""
