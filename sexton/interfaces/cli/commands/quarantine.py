"""`sexton quarantine`: list quarantined marks, and retry or discard them. It needs only the database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WrongUsage, log_call, open_database, parse_ref, require_reason
from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import human_bytes, quantity, utc, utc_column

if TYPE_CHECKING:
    from sexton.recycle.pipeline.quarantined import Quarantined

app = typer.Typer(help="Quarantined marks.", no_args_is_help=True)
PAGE_ROWS = 1_000
MAX_CHANGED_ROWS = 10
Instance = Annotated[str, typer.Argument(help="The instance.")]
ReasonFilter = Annotated[str | None, typer.Option(help="Only marks with this reason, e.g. DELETE_FAILED.")]


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None,
    reason: ReasonFilter = None,
) -> None:
    """Print quarantined marks and their reasons.

    `quarantine retry` retries marks, `quarantine discard` gives one up.

    Example: sexton quarantine list shop --reason DELETE_FAILED
    """
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        marks = service.stores.quarantine.list(instance, _checked_reason(reason), limit=PAGE_ROWS + 1)
    if wants_json():
        emit_list(marks[:PAGE_ROWS], more=len(marks) > PAGE_ROWS)
        return
    columns = ("instance", "mark", "reason", "failures", "marked (UTC)", "bytes", "last error")
    show_table("" if marks else "nothing is quarantined", columns, [_row(q) for q in marks[:PAGE_ROWS]])
    if len(marks) > PAGE_ROWS:
        typer.echo(f"only the first {PAGE_ROWS} are shown; name an instance or a --reason")


@app.command("retry")
def retry(
    instance: Instance,
    mark: Annotated[str | None, typer.Argument(metavar="[KIND/ID]", help="One mark.")] = None,
    reason: ReasonFilter = None,
    everything: Annotated[bool, typer.Option("--all", help="All of the instance, except CHANGED.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let the next round try marks again.

    One mark, those with a reason, or all of the instance. Marks with reason CHANGED need a confirmation, and --all
    leaves them out: an object was overwritten after it was marked, and a retry deletes the object that exists now.

    Example: sexton quarantine retry shop --reason DELETE_FAILED
    """
    from sexton.marks.model import Reason

    if (mark is not None) + (reason is not None) + everything != 1:
        raise WrongUsage("name one mark as KIND/ID, or --reason, or --all; exactly one of them")
    ref = parse_ref(mark) if mark is not None else None
    with open_database() as service:
        store, only_reason = service.stores.quarantine, _checked_reason(reason)
        changed: Sequence[Quarantined] = ()
        if only_reason in (None, Reason.CHANGED):
            changed = store.list(instance, Reason.CHANGED, ref, limit=PAGE_ROWS)
        if changed and not everything and not yes:
            _confirm_changed(changed)
        with log_call(service, "quarantine retry", instance, mark or reason or "all"):
            count = store.retry(instance, ref=ref, reason=only_reason, but=Reason.CHANGED if everything else None)
    if changed and everything:
        skipped = quantity(len(changed), "mark with overwritten objects stays", "marks with overwritten objects stay")
        typer.echo(f"{skipped} quarantined; review first: sexton quarantine list {instance} --reason CHANGED")
    retried = f"the next round of {instance} tries {quantity(count, 'mark')} again"
    typer.echo(retried if count else "no matching mark is quarantined")


@app.command("discard")
def discard(
    instance: Instance,
    mark: Annotated[str, typer.Argument(metavar="KIND/ID", help="The mark.")],
    reason: Annotated[str, typer.Option(help="Why it is given up; kept in its history.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Give a mark up.

    Its record is deleted, and Sexton never deletes what is left of its files. A mark that waits for its second pass may
    be given up, too, after an undelete that this pass would undo.

    Example: sexton quarantine discard shop dropped/t12 --reason 'removed by hand'
    """
    from sexton.kernel.errors import BadInput

    ref, text = parse_ref(mark), require_reason(reason)
    with open_database() as service, log_call(service, "quarantine discard", instance, mark, text):
        store = service.stores.quarantine
        q = store.find_discardable(service.stores.registry.instance(instance).id, ref)
        if q is None:
            raise BadInput(f"{mark} of {instance} is not quarantined; see: sexton why {ref.id}")
        for line in _consequences(q):
            typer.echo(line)
        if not yes:
            typer.confirm("Give it up?", abort=True, err=True)
        service.discard(instance, ref, text)
    typer.echo(f"{mark} is given up; see: sexton why {ref.id}")


def _consequences(q: "Quarantined") -> Sequence[str]:
    """Return what a mark is, and what becomes of its files when it is given up."""
    from sexton.marks.model import MarkState
    from sexton.recycle.pipeline.sql.quarantine import AWAITS_SECOND_PASS

    is_deleted = q.reason == AWAITS_SECOND_PASS
    state = "waits for its second pass" if is_deleted else f"quarantined: {q.reason}"
    header = f"{q.kind}/{q.id} of {q.instance}, marked {utc(q.marked_at)}, {state}"
    if not (q.prefix or q.keys):
        files = "all that its owner knows of it"
    else:
        place = f"prefix {q.prefix}" if q.prefix else quantity(q.keys, "key")
        files = f"{place} in vault {q.vault or '(none)'}, {human_bytes(q.bytes)} per its owner"
    if is_deleted:
        return header, f"its files are deleted; only what came or was undeleted later stays of: {files}"
    so_far = ", as far as they are not deleted yet" if q.state == MarkState.CLAIMED else ""
    return header, f"these files stay{so_far}: {files}"


def _row(q: "Quarantined") -> tuple[object, ...]:
    mark = f"{q.kind}/{q.id}"
    return q.instance, mark, q.reason, q.failures, utc_column(q.marked_at), human_bytes(q.bytes), q.last_error


def _confirm_changed(changed: "Sequence[Quarantined]") -> None:
    for q in changed[:MAX_CHANGED_ROWS]:
        typer.echo(f"{q.kind}/{q.id}: {q.last_error or 'an object changed'}")
    typer.confirm("These were overwritten after they were marked. Delete the current objects?", abort=True, err=True)


def _checked_reason(text: str | None) -> str | None:
    """Return a reason for which marks are quarantined, or refuse one that does not exist."""
    from sexton.marks.model import Reason

    if text is not None and text not in list(Reason):
        raise WrongUsage(f"{text!r} is no reason; one of: {', '.join(Reason)}")
    return text
