"""The owner ``ducklake``: a DuckLake whose own transactions mark, by triggers in its catalog."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sexton.marks.model import DueMark, Ref
from sexton.owners.ducklake import catalog
from sexton.owners.ducklake.model import missing_triggers
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.owner import SqlOwner


class DuckLakeOwner(SqlOwner):
    """Reads the live view of an attached lake, as long as its triggers are there: without them marks could be wrong."""

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, str]:
        """Return the marks that touch live files; ``OwnerSilent``: the lake must be attached again."""
        with self._attached(instance):
            return super().live(instance, marks, heartbeat)

    def live_as_of(self, instance: str) -> int | None:
        """Return None, because the view shows the moment at which it is read."""
        with self._attached(instance):
            return super().live_as_of(instance)

    @contextmanager
    def _attached(self, instance: str) -> Iterator[None]:
        schema = self._registry.instance(instance).owner_options["schema"]
        with self._db.read() as c:
            enabled = catalog.triggers(c, schema)
        if missing := missing_triggers(enabled):
            raise OwnerSilent(f"the lake's {missing}; attach it again: sexton ducklake attach {instance}")
        try:
            yield
        except OwnerSilent as e:
            raise OwnerSilent(f"{e}; sexton ducklake status {instance} shows whether the lake is attached") from e
