"""The errors of the catalog, all under ``CatalogError``."""

from sexton.kernel.errors import SextonError
from sexton.owners.port import RecordConflict, RecordMissing


class CatalogError(SextonError):
    """The catalog refused an operation; nothing was changed."""


class RecordNotFound(CatalogError, RecordMissing):
    """A table, index, partition, tablet, rowset, transaction or job has no record."""

    name = "NOT_FOUND"


class AlreadyThere(CatalogError, RecordConflict):
    """A record with this id exists already."""


class AlreadyDropped(CatalogError, RecordConflict):
    """The object or one of its ancestors was dropped."""

    name = "DROPPED"


class LabelTaken(CatalogError, RecordConflict):
    """A transaction with this label runs or is visible."""


class WrongState(CatalogError, RecordConflict):
    """The transaction or rowset is not in the state that the operation requires."""


class Uncovered(CatalogError, RecordConflict):
    """Without the compaction inputs no visible rowset would hold some of their versions."""
