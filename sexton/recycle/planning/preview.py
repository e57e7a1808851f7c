"""Preview what a changed retention would make due, or no longer due, before the setting is changed. Reads only."""

from collections.abc import Iterator

from sexton.database.engine import Database
from sexton.recycle.planning.model import Policy, Shift
from sexton.recycle.planning.sql.measure import Measure, find_kinds, policy_of


def shifts(db: Database, instance: str, before: Policy, after: Policy) -> Iterator[Shift]:
    """Yield what changes for an instance, kind by kind; only kinds whose retention differs."""
    with db.read() as c:
        now, old, new = db.now(c), policy_of(db, c, instance, before), policy_of(db, c, instance, after)
        measure = Measure(db, c, instance, new.policy)
        retentions = {*old.policy.retention_seconds, *new.policy.retention_seconds}
        for kind in find_kinds(db, c, instance, retentions).names:
            old_seconds, new_seconds = old.policy.retention_seconds.get(kind), new.policy.retention_seconds.get(kind)
            if old_seconds == new_seconds:
                continue
            since, cutoff = _moved_instants(old_seconds, new_seconds, now)
            moved = measure.measure_due(kind, cutoff, since)
            more = new_seconds is not None and (old_seconds is None or new_seconds < old_seconds)
            agreed = new.agreed is None or new_seconds is None or new_seconds >= new.agreed.get(kind, new_seconds)
            yield Shift(
                instance=instance,
                before=old_seconds,
                after=new_seconds,
                more=more,
                asks=new.enabled and more and moved.marks > 0 and not agreed,
                **moved.model_dump(include={"kind", "marks", "objects", "estimated", "bytes"}),
            )


def _moved_instants(before: int | None, after: int | None, now: int) -> tuple[int, int]:
    """Return between which instants the marks lie that only the shorter of two different retentions makes due.

    Without a retention nothing of a kind is due, as if the retention were endless.

    Args:
        before: the one retention in seconds, or None.
        after: the other one.
        now: in ms since 1970.

    Returns:
        ``since`` (0: no lower bound) and ``cutoff`` of ``Measure.measure_due``, in ms since 1970.
    """
    shorter = min(seconds for seconds in (before, after) if seconds is not None)
    longer = max(before or 0, after or 0) if before and after else None
    since = 0 if longer is None else now - 1000 * longer
    return since, now - 1000 * shorter
