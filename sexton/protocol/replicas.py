"""Replicas: where the copies of tablets are, which versions they have, and which binlogs a backend may delete."""

from typing import Annotated

from pydantic import BaseModel, FailFast, Field

from sexton.protocol.body import Body, Reason
from sexton.protocol.names import Id, Size, Version
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, AcknowledgeResult, CutDone, CutPage
from sexton.replication.replicas.model import MAX_PLACED_COPIES, PlaceResult, Replica, ReportReceipt

__all__ = [
    "AcknowledgeResult",
    "BackendReport",
    "CutDone",
    "CutPage",
    "CutsDone",
    "Decommissioned",
    "FullCopy",
    "PlaceResult",
    "PlacedCopy",
    "PlacedTablet",
    "Placements",
    "Replica",
    "Replicas",
    "ReportReceipt",
    "ReportedTablet",
]
MAX_REPORTED_COPIES, MAX_RANGES = 5_000, 100_000
Range = tuple[Version, Version]


class PlacedCopy(Body):
    """A copy of a tablet. A copy that replaces another one has its own uid."""

    backend: Id
    uid: Id


class PlacedTablet(Body):
    """A tablet with all of its copies."""

    tablet: Id
    partition: Id
    copies: Annotated[tuple[PlacedCopy, ...], Field(min_length=1, max_length=100)]


class Placements(Body):
    """All tablets of some partitions of a table."""

    tablets: Annotated[tuple[PlacedTablet, ...], FailFast(), Field(max_length=MAX_PLACED_COPIES)] = ()
    dropped_partitions: Annotated[tuple[Id, ...], Field(max_length=MAX_PLACED_COPIES)] = ()


class ReportedTablet(Body):
    """A backend's report of a copy: ``versions``, its rowsets' ranges, ``version``, its highest one, or both.

    ``version_miss``: below the highest version one is missing. If no ranges show which, the copy needs everything from
    the last version that was known to be continuous.
    """

    uid: Id
    versions: Annotated[tuple[Range, ...], Field(max_length=MAX_RANGES)] | None = None
    version: Annotated[int, Field(strict=True, ge=-1, le=MAX_COMMIT_SEQ)] | None = None
    bad: bool = False
    version_miss: bool = False
    rows: Size = 0
    bytes: Size = 0


class BackendReport(Body):
    """A page of a backend's report: ``boot`` increases with each start of the backend, ``sequence`` with each page."""

    boot: Size
    sequence: Size
    tablets: Annotated[tuple[ReportedTablet, ...], FailFast(), Field(max_length=MAX_REPORTED_COPIES)] = ()


class FullCopy(Body):
    """Why a replica can only be repaired by a full copy."""

    reason: Reason


class CutsDone(Body):
    """The binlog versions that a backend has deleted."""

    instance: Annotated[str, Field(max_length=63)] | None = None
    done: Annotated[tuple[CutDone, ...], FailFast(), Field(max_length=MAX_REPORTED_COPIES)]


class Replicas(BaseModel):
    """Replicas; ``need``: the first version that at least one copy of the tablet still has to receive."""

    replicas: tuple[Replica, ...]
    need: int | None = None


class Decommissioned(BaseModel):
    """The number of copies that were removed with their backend."""

    replicas: int
