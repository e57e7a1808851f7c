"""`sexton marks`: list marks, a page at a time. It needs only the database."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WrongUsage, one_instance, open_database, parse_ref
from sexton.interfaces.cli.render.marks import show_page

if TYPE_CHECKING:
    from sexton.insight.marks import Listed

app = typer.Typer(help="Marks: what owners declared to be garbage.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Make `list` a subcommand although it is the only one."""


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(metavar="[INSTANCE]", help="Default: the only instance.")] = None,
    kind: Annotated[str, typer.Option(help="Only marks of this kind.")] = "",
    state: Annotated[
        str, typer.Option(metavar="STATE", help="Only WAITING, CLAIMED, QUARANTINED or FENCED marks.")
    ] = "",
    parent: Annotated[str, typer.Option(metavar="KIND/ID", help="Only marks that name this parent.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many.")] = 100,
    after: Annotated[str, typer.Option(metavar="PLACE", help="The place at which the page before ended.")] = "",
) -> None:
    """Print marks: state, age, when each is due, its parent, its files.

    First those that wait, by kind and in the order in which they become due; then claimed ones, then quarantined ones.
    Marks that are FENCED wait, too: their owner refuses to commit them. Of what blocks a mark: sexton why ID.

    Example: sexton marks list shop --kind dropped --parent table/12
    """
    from sexton.insight.marks import MarkFilter

    of_state = _checked_state(state)
    ref = parse_ref(parent) if parent else None
    if ref is not None and of_state is not None:
        raise WrongUsage("--parent lists marks in every state; leave --state out")
    with open_database() as service:
        name = one_instance(service, instance)
        page = service.marks(MarkFilter(name, kind, of_state, ref), after, limit)
    show_page(page, f"{name} has no such mark; without filters: sexton marks list {name}")


def _checked_state(text: str) -> "Listed | None":
    from sexton.insight.marks import STATES

    if text and text.upper() not in STATES:
        raise WrongUsage(f"{text!r} is no state; one of: {', '.join(STATES)}")
    return STATES[text.upper()] if text else None
