"""What keeps binlogs of an instance: its clock, approvals, consumers, and copies of tablets; these by backend."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.interfaces.cli.output import many
from sexton.interfaces.cli.render.blocker import Blocker

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.database.engine import Database
    from sexton.replication.binlog.model import Consumer, Log

NOBODY = "sexton replica list --all, then repair a copy, place another, or drop the table"


def binlog_keepers(settings: "Settings", db: "Database", instance: str) -> Iterator[Blocker]:
    """Yield what keeps something, as of the last look; never a line per tablet."""
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.binlog.sql.figures import last_look, noted
    from sexton.replication.replicas.sql import figures

    with db.read() as c:
        look, logs, holders = last_look(db, c, instance), noted(db, c, instance), figures.holders(db, c, instance)
    of = f"--instance {instance}"
    if look.refused:
        todo = f"is it wrong: sexton stop {instance}; if not, the next look goes by it: sexton binlog gc {of}"
        yield _keeper(instance, "clock", "binlogs", look.looked_at, look.refused, todo)
    for log in logs:
        if log.wants is not None:
            todo = f"sexton binlog approve {log.db} {log.tbl}".rstrip() + f" {of}"
            what = f"binlog {log.name}: records up to {log.wants}"
            yield _keeper(instance, "approval", what, log.wants_since, "it takes very much", todo)
    yield from _consumers(instance, logs, OperatorService(settings, db).binlogs.consumers.all(instance) if logs else ())
    for its in holders:
        what = f"cuts, for {its.copies:,} of its copies" if its.backend else f"cuts of {many(its.copies, 'tablet')}"
        who = f"replicas on {its.backend}" if its.backend else "replicas"
        gone = f"; gone for good: sexton replica decommission {its.backend} {of}" if "report" in its.why else ""
        todo = f"sexton replica list {of}{gone}"
        yield _keeper(instance, who, what, its.since, its.why, todo if its.backend else NOBODY, its.copies)


def _consumers(instance: str, logs: "Sequence[Log]", readers: "Sequence[Consumer]") -> Iterator[Blocker]:
    """Yield each consumer that holds cuts back, once, however many logs it reads."""
    standing = {(r.db, r.name) for r in readers if r.lost_at is None}
    held: dict[str, list[Log]] = {}
    for log in logs:
        for who in log.held:
            if (log.db, who) in standing:  # as of the last look: it may be LOST, or removed, since
                held.setdefault(who, []).append(log)
    for who, its in sorted(held.items()):
        first = min(its, key=lambda log: (log.held_since or 0, log.name))
        more = f" and {len(its) - 1:,} more" if len(its) > 1 else ""
        what = f"binlog {first.name}{more}: records behind {first.held[who]}"
        todo = f"sexton binlog explain {first.db} {first.tbl}".rstrip() + f" --instance {instance}"
        why = "it has not acknowledged them"
        yield _keeper(instance, f"consumer {who}", what, first.held_since, why, todo, len(its))


def _keeper(
    instance: str, held_by: str, what: str, since: int | None, why: str, todo: str, count: int | None = None
) -> Blocker:
    return Blocker(instance=instance, held_by=held_by, what=what, since=since, why=why, way_out=todo, count=count)
