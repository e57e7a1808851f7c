"""Print replicas of tablets, and backends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import quantity, utc_column
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.binlogs import problem
from sexton.replication.binlog.model import MAX_COMMIT_SEQ
from sexton.replication.replicas import policy

if TYPE_CHECKING:
    from sexton.operations.replicas import Replicas
    from sexton.replication.replicas.model import BackendStanding, Replica


def replica_row(replica: "Replica", now: int) -> tuple[object, ...]:
    """Return a replica, and what is wrong with it, as a row."""
    wrong = "; ".join(text for text in (policy.describe_faults(replica, now), replica.problem) if text) or "nothing"
    return (
        replica.tablet,
        replica.backend,
        _version(replica.continuous_version),
        replica.needs,
        wrong,
        _version(replica.failed),
        _full_copy(replica),
        utc_column(replica.fresh_until),
    )


def show_tablet(page: "Replicas") -> None:
    """Print a tablet's replicas, which of them decides, and what follows for cuts."""
    replicas, now = page.items, page.now_at
    tablet = replicas[0].tablet
    first, lowest = replicas[0], policy.lowest_needed_version(replicas, now)
    deciding = lowest[1] if lowest is not None else None
    count = quantity(len(replicas), "replica")
    typer.echo(f"tablet {tablet} of {first.db}/{first.tbl}, partition {first.part}: {count}")
    columns = (
        "backend",
        "uid",
        "continuous",
        "needs from",
        "state",
        "to delete up to",
        "may delete",
        "deleted",
        "problem",
    )
    show_table("", columns, [_replica_row(r, now, decides=deciding is r) for r in replicas])
    if lowest is None:
        typer.echo("the tablet is dropped: all of it is deleted, on every backend")
    elif deciding is None:
        typer.echo("none of its replicas counts, and one of them may be the last good one: nothing is deleted; repair")
        typer.echo("one, so that it reports, place another, or report that its table is dropped")
    else:
        _show_decision(tablet, replicas, deciding, lowest[0], now)


def _show_decision(tablet: str, replicas: "Sequence[Replica]", deciding: "Replica", need: int, now: int) -> None:
    """Print which replica decides, and which replicas still wait for it."""
    unhealthy = policy.describe_faults(deciding, now)
    deletable = f"binlogs and files below version {need} may be deleted" if need > 0 else "nothing may be deleted"
    typer.echo(f"the replica on {deciding.backend} decides: {f'{unhealthy}; ' if unhealthy else ''}{deletable}")
    desired = max(r.desired for r in replicas if not r.dropped)
    waiting = sum(1 for r in replicas if not r.dropped and r.granted < r.desired and need <= r.desired)
    if waiting:
        condition = f"it has version {need}" if need else "it has reported that it is healthy"
        typer.echo(
            f"cuts have reached version {desired}; {quantity(waiting, 'replica waits', 'replicas wait')} "
            f"until {condition}"
        )
        typer.echo(f"if it never will: sexton replica full-copy {tablet} {deciding.backend} --reason …")
    elif any(r.acked < r.desired for r in replicas):
        typer.echo(f"cuts have reached version {desired}; the rest is deleted when its backend pulls")


def backend_row(standing: "BackendStanding") -> tuple[object, ...]:
    """Return a backend as a row."""
    counts = (
        (standing.bad, "bad"),
        (standing.missing, "missing versions"),
        (standing.silent, "without a fresh report"),
        (standing.full_copy, "FULL_COPY_ONLY"),
    )
    return (
        standing.backend,
        utc_column(standing.reported_at),
        utc_column(standing.pulled_at),
        standing.copies,
        f"{standing.behind:,}",
        ", ".join(f"{count:,} {what}" for count, what in counts if count),
        problem(standing),
    )


def _replica_row(replica: "Replica", now: int, *, decides: bool) -> tuple[object, ...]:
    texts = ("decides" if decides else "", policy.describe_faults(replica, now), _full_copy(replica))
    return (
        replica.backend,
        replica.uid,
        _version(replica.continuous_version),
        _needs(replica, now),
        "; ".join(text for text in texts if text),
        _cut_version(replica.desired),
        _cut_version(replica.granted),
        _cut_version(replica.acked),
        replica.problem,
    )


def _needs(replica: "Replica", now: int) -> object:
    if replica.dropped:
        return "dropped"
    return "does not count" if replica.full_copy else policy.need(replica, now)


def _version(version: int) -> str:
    return "-" if version < 0 else str(version)


def _cut_version(version: int) -> object:
    if version >= MAX_COMMIT_SEQ:
        return "all"
    return "-" if version < 0 else version


def _full_copy(replica: "Replica") -> str:
    return f"FULL_COPY_ONLY since {utc_column(replica.full_copy_at)}: {replica.full_copy}" if replica.full_copy else ""
