"""Show an owner's live view to checks and to peers: in parts, in one snapshot, with each object under one name.

The parts are read in parallel, also on other machines. URLs are resolved here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Select, TableClause, and_, select

from sexton.database.engine import Database
from sexton.database.ranges import within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part, short_key
from sexton.operators.registry.store import Registry
from sexton.owners.port import LiveParts, NoLiveSide, Owner
from sexton.owners.reading import STATEMENT_SECONDS, silent_on_error
from sexton.owners.sql import live_keys, live_moment, live_view
from sexton.owners.sql.live_reading import reading
from sexton.storage.model import VaultSpec

SILENT = "the owner's records cannot be read"


class ViewReader(Owner):
    """The part of the owner ``sql`` that reads whole views."""

    def __init__(self, db: Database, registry: Registry, max_age_seconds: int = live_moment.MAX_AGE_SECONDS) -> None:
        """Store the ports.

        Args:
            db: the owner's database, which is Sexton's too.
            registry: names the view and the vaults of each instance.
            max_age_seconds: how old a copy of the live view may be.
        """
        self._db, self._registry, self._max_age_seconds = db, registry, max_age_seconds

    def live_as_of(self, instance: str) -> int | None:
        """Return as of when the view is true, if it is a copy."""
        with self._reading(instance) as (live, view):
            live.execute(select(view).limit(0))  # a right or column that is missing is an error before any listing
            as_of = live_moment.read(live, view, live_view.is_about(view, instance))
        with silent_on_error(SILENT), self._db.read() as c:
            live_moment.require_recent(as_of, self._db.now(c), self._max_age_seconds)
        return as_of

    def live_parts(self, instance: str, moment: str, connection: Connection, rows: int) -> LiveParts:
        """Return ranges of keys of the view."""
        with self._reading(instance, moment) as (live, view):
            as_of = live_moment.read(live, view, live_view.is_about(view, instance))
            return LiveParts(live_view.parts(live, view, instance, rows), as_of)

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield the rows of a part of the view."""
        vaults = self._vaults(instance)
        with self._reading(instance, moment) as (live, view):
            exists = self._is_only_instance_of(view)
            for page in live_view.read(live, view, instance, part):
                yield [_resolved(entry, vaults, exists=exists) for entry in page]

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the rows of these records now."""
        vaults = self._vaults(instance)
        with self._reading(instance) as (live, view):
            exists = self._is_only_instance_of(view)
            entries = live_view.entries_of(live, view, instance, records)
        return [_resolved(entry, vaults, exists=exists) for entry in entries]

    @contextmanager
    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[tuple[Connection, Select[Any]]]:
        """Open the ids of the view, with the login that reads it."""
        name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise BadInput(_no_view(instance))
        with reading(self._db, instance, name, moment="") as c:
            view = live_view.load(c, name)
            is_of_kind = and_(live_view.is_about(view, instance), view.c.kind == kind)
            yield c, select(view.c.id.label("id")).where(is_of_kind, within(view.c.id, after, until)).distinct()

    @contextmanager
    def _reading(self, instance: str, moment: str | None = None) -> Iterator[tuple[Connection, TableClause]]:
        """Open a transaction that reads the view for a check: in a snapshot, or now."""
        with silent_on_error(SILENT):
            name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise NoLiveSide(f"{_no_view(instance)} (docs/integration.md)")
        limits = {"seconds": STATEMENT_SECONDS, "look_seconds": STATEMENT_SECONDS}
        with reading(self._db, instance, name, moment=moment, **limits) as live:
            view = live_view.load(live, name)
            if "instance" not in view.c and not self._is_only_instance_of(view):
                raise NoLiveSide(
                    f"{name} has no column instance, but several instances name it, so it is unknown to which one a "
                    "row belongs; add the column"
                )
            yield live, view

    def _vaults(self, instance: str) -> Mapping[str, VaultSpec]:
        return {spec.name: spec for spec in self._registry.vaults(instance)}

    def _is_only_instance_of(self, view: TableClause) -> bool:
        """Return whether one instance names the view, so that a row without an instance is about this one."""
        return sum(other.live_view == view.fullname for other in self._registry.instances()) == 1


def _no_view(instance: str) -> str:
    return (
        f"{instance} does not show which objects are live; create a view and name it: "
        f"sexton instance live-view {instance} VIEW"
    )


def _resolved(entry: LiveEntry, vaults: Mapping[str, VaultSpec], *, exists: bool) -> LiveEntry:
    """Return the entry under the vault and key that a listing shows.

    ``exists``: one instance names the view, so the object of a row without an instance must exist, too.
    """
    if exists and not entry.live:
        entry = entry._replace(live=True)
    entry = live_keys.resolved(entry, vaults)
    # No object of S3 has such a key: the row is a loss with a name that can be stored.
    return entry._replace(key=short_key(entry.key)) if _is_in_s3(entry, vaults) else entry


def _is_in_s3(entry: LiveEntry, vaults: Mapping[str, VaultSpec]) -> bool:
    return entry.vault in vaults and vaults[entry.vault].kind == "s3"
