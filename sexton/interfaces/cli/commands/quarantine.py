"""`sexton quarantine`: marks that were set aside, and the two ways out. SQL alone."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened, recorded, ref, said
from sexton.interfaces.cli.output import dump, many, show, size, stamp, when

app = typer.Typer(help="Marks that were set aside.", no_args_is_help=True)
SHOWN = 1_000
Instance = Annotated[str, typer.Argument(help="The instance.")]
OfReason = Annotated[str | None, typer.Option(help="Only those set aside for this, e.g. DELETE_FAILED.")]


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None,
    reason: OfReason = None,
    as_json: Json = False,
) -> None:
    """Print what is set aside and why; each goes back with `quarantine retry`, or is given up with `discard`.

    Example: sexton quarantine list shop --reason DELETE_FAILED
    """
    from sexton.operators.registry.store import Registry
    from sexton.recycle.pipeline.sql.quarantine import QuarantineStore

    with opened() as (_, db):
        if instance is not None:
            Registry(db).instance(instance)
        found = QuarantineStore(db).list(instance, _reason(reason), limit=SHOWN + 1)
    if as_json:
        dump([q.model_dump(mode="json") for q in found])
        return
    rows = [
        (q.instance, f"{q.kind}/{q.id}", q.reason, q.failures, stamp(q.marked_at), size(q.bytes), q.last_error)
        for q in found[:SHOWN]
    ]
    columns = ("instance", "mark", "reason", "failures", "marked (UTC)", "bytes", "last error")
    show("" if rows else "nothing is set aside", columns, rows)
    if len(found) > SHOWN:
        typer.echo(f"only the first {SHOWN} are shown; name an instance or a --reason")


@app.command("retry")
def retry(
    instance: Instance,
    mark: Annotated[str | None, typer.Argument(metavar="[KIND/ID]", help="One mark.")] = None,
    reason: OfReason = None,
    everything: Annotated[bool, typer.Option("--all", help="All of the instance, but CHANGED.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let the next round try marks again: one, those of a reason, or all of the instance.

    CHANGED is asked about, and not among all: an object was written anew after it was marked, and trying again deletes
    what is there now.

    Example: sexton quarantine retry shop --reason DELETE_FAILED
    """
    from sexton.marks.model import Reason
    from sexton.recycle.pipeline.sql.quarantine import QuarantineStore

    if (mark is not None) + (reason is not None) + everything != 1:
        raise WrongUsage("name one mark as KIND/ID, or --reason, or --all; exactly one of them")
    named = ref(mark) if mark is not None else None
    with opened() as (_, db):
        store, of = QuarantineStore(db), _reason(reason)
        changed = store.list(instance, Reason.CHANGED, named, limit=SHOWN) if of in (None, Reason.CHANGED) else ()
        if changed and not everything and not yes:
            for q in changed[:10]:
                typer.echo(f"{q.kind}/{q.id}: {q.last_error or 'an object changed'}")
            typer.confirm("written anew after they were marked; delete what is there now?", abort=True, err=True)
        with recorded(db, "quarantine retry", instance, mark or reason or "all"):
            freed = store.retry(instance, ref=named, reason=of, but=Reason.CHANGED if everything else None)
    if changed and everything:
        left = f"{many(len(changed), 'mark')} with objects that were written anew stay set aside"
        typer.echo(f"{left}; look first: sexton quarantine list {instance} --reason CHANGED")
    typer.echo(
        f"the next round of {instance} tries {many(freed, 'mark')} again" if freed else "nothing of that is set aside"
    )


@app.command("discard")
def discard(
    instance: Instance,
    mark: Annotated[str, typer.Argument(metavar="KIND/ID", help="The mark.")],
    reason: Annotated[str, typer.Option(help="Why it is given up; kept in its history.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Give a mark up: its record goes, its files stay where they are and nothing will look for them.

    Example: sexton quarantine discard shop dropped/t12 --reason 'removed by hand'
    """
    from sexton.kernel.errors import BadInput
    from sexton.operators.registry.store import Registry
    from sexton.recycle.pipeline.sql.quarantine import QuarantineStore

    named, why = ref(mark), said(reason)
    with opened() as (_, db):
        store = QuarantineStore(db)
        found = store.list(Registry(db).instance(instance).id, ref=named)
        if not found:
            raise BadInput(f"{mark} of {instance} is not set aside; see: sexton why {named.id}")
        [q] = found
        typer.echo(f"{mark} of {instance}, marked {when(q.marked_at)}, set aside: {q.reason}")
        stays = f"prefix {q.prefix}" if q.prefix else f"{many(q.keys, 'key')}"
        typer.echo(f"stays for ever: {stays} in vault {q.vault or '(none)'}, {size(q.bytes)} by its owner's word")
        if not yes:
            typer.confirm("give it up?", abort=True, err=True)
        with recorded(db, "quarantine discard", instance, mark, why):
            store.discard(instance, named, why)
    typer.echo(f"{mark} is given up; see: sexton why {named.id}")


def _reason(text: str | None) -> str | None:
    """Return a reason for which marks are set aside, or refuse one that does not exist."""
    from sexton.marks.model import Reason

    if text is not None and text not in list(Reason):
        raise WrongUsage(f"{text!r} is no reason; one of: {', '.join(Reason)}")
    return text
