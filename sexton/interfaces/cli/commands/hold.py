"""`sexton hold`: block deletions for a while. It needs only the database, and cannot stop marks already claimed."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import (
    OptionalInstance,
    WhyOption,
    WrongUsage,
    log_call,
    one_instance,
    open_database,
    parse_duration,
    parse_ref,
    require_reason,
)
from sexton.interfaces.cli.groups import SextonGroup
from sexton.interfaces.cli.json_output import emit, emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import UNCOUNTED, blocks_deep, covers_nothing, quantity, utc, utc_column
from sexton.kernel.printable import printable
from sexton.marks.model import Ref

if TYPE_CHECKING:
    from sexton.operators.holds.model import Coverage, Hold

app = typer.Typer(help="Holds: until a hold ends, no mark that it covers is claimed.", no_args_is_help=True)
add = typer.Typer(help="Place a hold on an instance, a table, a mark or a prefix.", no_args_is_help=True)
app.add_typer(add, name="add", cls=SextonGroup)
TABLE = "table"
"""The kind under which owners name a table as the ancestor of its marks."""

COLUMNS = ("hold", "instance", "covers", "state", "placed (UTC)", "ends (UTC)", "by", "why")
For = Annotated[str, typer.Option("--for", help="How long: 30m, 12h, 7d, 2w.", metavar="LENGTH")]
Reason = Annotated[str, typer.Option(help="Why; other operators will read it.")]
InstanceOption = Annotated[str | None, typer.Option(help="Default: the only instance.")]


@add.command("instance")
def hold_instance(length: For, reason: Reason, instance: OptionalInstance = None) -> None:
    """Hold everything of an instance.

    Example: sexton hold add instance shop --for 7d --reason 'audit until Friday'
    """
    from sexton.operators.holds.model import Hold

    hold = Hold(instance="", scope="instance", reason=require_reason(reason))
    _place(hold, instance, length)


@add.command("table")
def hold_table(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The table's id, as the owner's marks name it.")],
    length: For,
    reason: Reason,
    instance: InstanceOption = None,
) -> None:
    """Hold a table and every mark that names it as an ancestor.

    Example: sexton hold add table 12 --instance shop --for 7d --reason 'wrong drop?'
    """
    if not id_.strip():
        raise WrongUsage("the table's id is empty")
    _place(_mark_hold(Ref(TABLE, id_), reason), instance, length)


@add.command("mark")
def hold_mark(
    mark: Annotated[
        str,
        typer.Argument(metavar="KIND/ID", help="The mark, e.g. dropped/t12, or a parent of marks, e.g. release/app-1."),
    ],
    length: For,
    reason: Reason,
    instance: InstanceOption = None,
) -> None:
    """Hold one mark and all of its descendants.

    Example: sexton hold add mark dropped/t12 --instance shop --for 12h --reason 'wrong drop?'
    """
    _place(_mark_hold(parse_ref(mark), reason), instance, length)


@add.command("vault-prefix")
def hold_prefix(
    place: Annotated[str, typer.Argument(metavar="VAULT/PREFIX", help="Keys of a vault that begin with PREFIX.")],
    length: For,
    reason: Reason,
    instance: InstanceOption = None,
) -> None:
    """Hold marks with files under a prefix.

    Every mark with a file whose key, relative to its vault, begins with the prefix.

    Example: sexton hold add vault-prefix cold/data/12/ --instance shop --for 2w --reason 'legal hold'
    """
    from sexton.operators.holds.model import Hold

    vault, _, prefix = place.partition("/")
    if not (vault and prefix):
        raise WrongUsage(f"{place!r} names no prefix; write VAULT/PREFIX; to hold all: sexton hold add instance")
    if "*" in prefix or "?" in prefix:
        typer.echo("* and ? have no special meaning in a prefix; the hold covers all keys that begin with it", err=True)
    hold = Hold(instance="", scope="prefix", vault=vault, prefix=prefix, reason=require_reason(reason))
    _place(hold, instance, length)


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(metavar="[INSTANCE]", help="Only this instance's.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that ended: released, or expired.")] = False,
    last: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=10_000)] = 1_000,
) -> None:
    """Print holds, the newest first: what each covers, until when, who placed it and why.

    Example: sexton hold list shop
    """
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        holds, now = service.stores.holds.newest(instance, last + 1, active=not everything)
    if wants_json():
        emit_list(holds[:last], more=len(holds) > last)
        return
    none = "no hold was placed yet" if everything else "no hold is active; those that ended: sexton hold list --all"
    show_table("" if holds else none, COLUMNS, [_row(h, now) for h in holds[:last]])
    if len(holds) > last:
        typer.echo(f"only the newest {last:,} are shown; see more with --last N")


@app.command("release")
def release(
    hold: Annotated[int, typer.Argument(metavar="HOLD", help="The hold's number.", min=1, max=2**63 - 1)],
    reason: WhyOption = "",
) -> None:
    """End a hold now; the next round may delete what it blocked. Repeatable.

    Example: sexton hold release 3
    """
    with open_database() as service:
        instance = service.stores.holds.instance_of(hold)
        with log_call(service, "hold release", instance, str(hold), reason):
            released = service.stores.holds.release(hold)
    typer.echo(f"{released.kept} of {released.instance} ({printable(released.what)}) ended {utc(released.ends_at)}")


def _row(hold: "Hold", now: int) -> tuple[object, ...]:
    state = "released" if hold.released_at is not None else "expired" if hold.expires_at <= now else "active"
    times = (utc_column(hold.placed_at), utc_column(hold.ends_at))
    return hold.id, hold.instance, hold.what, state, *times, hold.placed_by, hold.reason


def _mark_hold(mark: Ref, reason: str) -> "Hold":
    from sexton.operators.holds.model import Hold

    return Hold(instance="", scope="mark", mark_kind=mark.kind, mark_id=mark.id, reason=require_reason(reason))


def _place(hold: "Hold", instance: str | None, length: str) -> None:
    """Place the hold on the instance, or on the only one."""
    duration = parse_duration(length)
    with open_database() as service:
        request = hold.model_copy(update={"instance": one_instance(service, instance)})
        with log_call(service, "hold", request.instance, request.what, request.reason, blocks_deletion=True):
            placed, too_late = service.stores.holds.place(request, duration)
        covers = service.stores.holds.count_blocked(placed)
    if wants_json():
        emit(
            placed,
            too_late=too_late,
            blocks_now=None if covers is None else covers.blocked,
            matches_now=None if covers is None else covers.matching,
            may_block=None if covers is None else covers.above,
        )
    else:
        _show_placed(placed, covers, too_late)


def _show_placed(hold: "Hold", covers: "Coverage | None", too_late: int) -> None:
    typer.echo(f"{hold.kept} blocks {printable(hold.what)} of {hold.instance} until {utc(hold.expires_at)}")
    if covers is None:
        typer.echo(f"WARNING: {UNCOUNTED}", err=True)
    elif covers.matching:
        typer.echo(f"it covers {quantity(covers.matching, 'mark')} now, and matching marks that are made until then")
    elif hold.scope == "instance":
        typer.echo(covers_nothing(hold))
    else:
        typer.echo(f"WARNING: {covers_nothing(hold, covers.above)}", err=True)
        typer.echo("to see the names of marks: sexton why ID; or hold a vault-prefix, or the whole instance", err=True)
    if covers is not None and covers.many_levels:
        typer.echo(f"it also blocks {blocks_deep(covers.many_levels)}")
    typer.echo(f"to end it earlier: sexton hold release {hold.id}")
    if too_late:
        typer.echo(
            f"too late for {quantity(too_late, 'mark')}: they were already claimed, and their deletion continues"
        )
