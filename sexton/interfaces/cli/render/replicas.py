"""How copies of tablets and backends are printed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.output import many, show, stamp
from sexton.interfaces.cli.render.binlogs import problem
from sexton.replication.binlog.model import MOST
from sexton.replication.replicas import policy

if TYPE_CHECKING:
    from sexton.replication.replicas.model import BackendStanding, Replica


def unwell_row(its: "Replica", now: int) -> tuple[object, ...]:
    """Return a copy, and what is wrong with it, as a row."""
    version, failed = (("-" if v < 0 else str(v)) for v in (its.version, its.failed))
    wrong = "; ".join(t for t in (policy.unwell(its, now), its.problem) if t) or "nothing"
    return its.tablet, its.backend, version, its.needs, wrong, failed, _full(its), stamp(its.fresh_until)


def show_tablet(tablet: str, found: "Sequence[Replica]", now: int) -> None:
    """Print a tablet's copies, which of them decides, and what follows for cuts."""
    first, least = found[0], policy.lowest(found, now)
    who = least[1] if least is not None else None
    typer.echo(
        f"tablet {tablet} of {first.db}/{first.tbl}, partition {first.part}: {many(len(found), 'copy', 'copies')}"
    )
    columns = ("backend", "uid", "version", "needs from", "state", "to go up to", "may go", "gone", "problem")
    show("", columns, [_copy(r, now, decides=who is r) for r in found])
    if least is None:
        typer.echo("it is dropped: all of it goes, on every backend")
        return
    need, desired = least[0], max(r.desired for r in found if not r.dropped)
    if who is None:
        typer.echo(
            "no copy of it counts, and the last good one may be among them: nothing goes; repair one, so that it"
        )
        typer.echo("reports, place another, or say that its table is dropped")
        return
    why = policy.unwell(who, now)
    typer.echo(f"the copy on {who.backend} decides: {f'{why}; ' if why else ''}{_below(need)}")
    waits = sum(1 for r in found if not r.dropped and r.granted < r.desired and need <= r.desired)
    if waits:
        until = f"it has version {need}" if need else "it has told that it is well"
        who_waits = many(waits, "copy waits", "copies wait")
        typer.echo(f"cuts have come to version {desired}; {who_waits} until {until}")
        typer.echo(f"if it never will: sexton replica full-copy {tablet} {who.backend} --reason …")
    elif any(r.acked < r.desired for r in found):
        typer.echo(f"cuts have come to version {desired}; what is not gone yet goes when its backend pulls")


def backend_row(its: "BackendStanding") -> tuple[object, ...]:
    """Return a backend as a row."""
    numbers = ((its.bad, "bad"), (its.missing, "missing versions"), (its.silent, "without a fresh report"))
    said = [f"{n:,} {what}" for n, what in (*numbers, (its.full_copy, "FULL_COPY_ONLY")) if n]
    behind = f"{its.behind:,}"
    return its.backend, stamp(its.reported_at), stamp(its.pulled_at), its.copies, behind, ", ".join(said), problem(its)


def _below(need: int) -> str:
    return f"binlogs and files below version {need} may go" if need > 0 else "nothing may go"


def _copy(its: "Replica", now: int, *, decides: bool) -> tuple[object, ...]:
    wrong = policy.unwell(its, now)
    needs = "dropped" if its.dropped else "does not count" if its.full_copy else policy.need(its, now)
    told = [t for t in ("decides" if decides else "", wrong, _full(its)) if t]
    versions = ("all" if v >= MOST else "-" if v < 0 else v for v in (its.desired, its.granted, its.acked))
    return its.backend, its.uid, "-" if its.version < 0 else its.version, needs, "; ".join(told), *versions, its.problem


def _full(its: "Replica") -> str:
    return f"FULL_COPY_ONLY since {stamp(its.full_copy_at)}: {its.full_copy}" if its.full_copy else ""
