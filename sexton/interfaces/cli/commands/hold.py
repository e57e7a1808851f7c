"""`sexton hold`: keep something for a while. SQL alone; what was claimed before cannot be held any more."""

from typing import Annotated, Literal

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, one_instance, opened, recorded, ref, said, seconds
from sexton.interfaces.cli.output import dump, many, when
from sexton.marks.model import Ref

app = typer.Typer(help="Holds: until they end, nothing they name is claimed.", no_args_is_help=True)
TABLE = "table"
"""The kind under which owners name a table as the ancestor of what belongs to it."""

For = Annotated[str, typer.Option("--for", help="How long: 30m, 12h, 7d, 2w.", metavar="LENGTH")]
Reason = Annotated[str, typer.Option(help="Why; others will read it.")]
Of = Annotated[str | None, typer.Option(help="Default: the only instance.")]


@app.command("instance")
def hold_instance(
    instance: Annotated[str, typer.Argument(help="The instance.")], length: For, reason: Reason, as_json: Json = False
) -> None:
    """Hold everything of an instance.

    Example: sexton hold instance shop --for 7d --reason 'audit until Friday'
    """
    _place("instance", instance, length, reason, as_json)


@app.command("table")
def hold_table(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The table's id, as the owner's marks name it.")],
    length: For,
    reason: Reason,
    instance: Of = None,
    as_json: Json = False,
) -> None:
    """Hold a table and everything that names it as an ancestor.

    Example: sexton hold table 12 --instance shop --for 7d --reason 'wrong drop?'
    """
    if not id_.strip():
        raise WrongUsage("name the table by its id")
    _place("mark", instance, length, reason, as_json, mark=Ref(TABLE, id_))


@app.command("mark")
def hold_mark(
    mark: Annotated[str, typer.Argument(metavar="KIND/ID", help="The mark, e.g. dropped/t12.")],
    length: For,
    reason: Reason,
    instance: Of = None,
    as_json: Json = False,
) -> None:
    """Hold one mark and everything below it.

    Example: sexton hold mark dropped/t12 --instance shop --for 12h --reason 'wrong drop?'
    """
    _place("mark", instance, length, reason, as_json, mark=ref(mark))


@app.command("vault-prefix")
def hold_prefix(
    place: Annotated[str, typer.Argument(metavar="VAULT/PREFIX", help="Keys of a vault that begin with PREFIX.")],
    length: For,
    reason: Reason,
    instance: Of = None,
    as_json: Json = False,
) -> None:
    """Hold every mark with a file whose key begins with a prefix, relative to its vault.

    Example: sexton hold vault-prefix cold/data/12/ --instance shop --for 2w --reason 'legal hold'
    """
    vault, _, prefix = place.partition("/")
    if not (vault and prefix):
        raise WrongUsage(f"{place!r} names no prefix; write VAULT/PREFIX; to hold all: sexton hold instance")
    if "*" in prefix or "?" in prefix:
        typer.echo("* and ? mean themselves in a prefix; everything that begins with it is held anyway", err=True)
    _place("prefix", instance, length, reason, as_json, vault=vault, prefix=prefix)


@app.command("release")
def release(
    hold: Annotated[int, typer.Argument(metavar="ID", help="The hold's number.", min=1, max=2**63 - 1)],
) -> None:
    """End a hold now; what it kept goes with the next round. Repeatable.

    Example: sexton hold release 3
    """
    from sexton.operators.holds.store import HoldStore

    with opened() as (_, db), recorded(db, "hold release", subject=str(hold)):
        ended = HoldStore(db).release(hold)
    at = min(ended.released_at or ended.expires_at, ended.expires_at)
    typer.echo(f"hold {ended.id} of {ended.instance} ({ended.what}) ended {when(at)}")


def _place(
    scope: Literal["instance", "mark", "prefix"],
    instance: str | None,
    length: str,
    reason: str,
    as_json: bool,
    *,
    mark: Ref | None = None,
    vault: str | None = None,
    prefix: str | None = None,
) -> None:
    from sexton.operators.holds.store import Hold, HoldStore

    lasts, why = seconds(length), said(reason)
    with opened() as (_, db):
        wanted = Hold(
            instance=one_instance(db, instance),
            scope=scope,
            mark_kind=mark.kind if mark else None,
            mark_id=mark.id if mark else None,
            vault=vault,
            prefix=prefix,
            reason=why,
        )
        with recorded(db, "hold", wanted.instance, wanted.what, why, keeps=True):
            made, late = HoldStore(db).place(wanted, lasts)
        now = HoldStore(db).keeps(made)
    if as_json:
        dump(made.model_dump(mode="json") | {"too_late": late, "keeps_now": now})
        return
    typer.echo(f"hold {made.id} keeps {made.what} of {made.instance} until {when(made.expires_at)}")
    if now:
        typer.echo(f"it keeps {many(now, 'mark')} now, and whatever is marked there until then")
    if now == 0:
        typer.echo(
            f"WARNING: no mark of {made.instance} is it, or names it as an ancestor: it keeps nothing now but what its "
            "owner's own records put below it",
            err=True,
        )
        typer.echo("see what its marks name: sexton why ID; or hold a vault-prefix, or the whole instance", err=True)
    typer.echo(f"to end it before: sexton hold release {made.id}")
    if late:
        typer.echo(f"too late for {many(late, 'mark')}: claimed before, what is deleted of them is gone")
