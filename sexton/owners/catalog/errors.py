"""What the catalog refuses."""

from sexton.kernel.errors import SextonError


class CatalogError(SextonError):
    """The catalog refuses; nothing was changed."""


class RecordNotFound(CatalogError):
    """There is no such table, index, partition, tablet, rowset, transaction or job."""

    name = "NOT_FOUND"


class AlreadyThere(CatalogError):
    """Something of that id exists."""


class AlreadyDropped(CatalogError):
    """It, or what it is part of, was dropped."""

    name = "DROPPED"


class LabelTaken(CatalogError):
    """A transaction under this label runs or has become visible."""


class WrongState(CatalogError):
    """The transaction or rowset is not in the state this needs."""


class Uncovered(CatalogError):
    """Compaction inputs hold versions that no visible rowset would hold without them."""
