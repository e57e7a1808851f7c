"""`sexton why`: explain one object or mark, and everything that blocks its deletion, from SQL and the audit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WrongUsage, open_database, parse_duration
from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.wording import human_bytes, quantity, utc
from sexton.kernel.errors import SextonError
from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from sexton.insight.views import Story
    from sexton.interfaces.operator_service import OperatorService

NO_INSTANT = " " * len("2026-01-01 00:00:00 UTC")


class NothingKnown(SextonError):
    """Neither SQL nor the searched part of the audit contains the name."""


def why(
    what: Annotated[str, typer.Argument(metavar="KEY|ID", help="An object's key, or a mark's id.")],
    instance: Annotated[str | None, typer.Option(help="Only in this instance.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Search every day of the audit for marks that SQL no longer contains.")
    ] = False,
    last: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --deep: only the days since then, e.g. 90d.")
    ] = None,
) -> None:
    """Explain one object or mark.

    Whether it is live, when it was marked and is due, what blocks it, where it was claimed, and when it was deleted.
    SQL contains deleted marks for 30 days; the audit, which --deep searches, contains them for longer.

    Example: sexton why data/12/ab34_0.dat
    """
    from sexton.insight.search import names_of

    last_seconds = None if last is None else parse_duration(last)
    if last is not None and not deep:
        raise WrongUsage("--last goes with --deep: SQL is always searched completely")
    if not what.strip():
        raise WrongUsage("the name is empty; write an object's key, its URL, or a mark's id")
    if "\0" in what or what != what.encode(errors="replace").decode():
        raise WrongUsage(f"{what!r} is not text, so it cannot be a key or an id")
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        stories = service.stories(what, instance)
        hint, of_instance = "", "" if instance is None else f" of {instance}"
        named_in_a_vault = names_of(service.stores.registry.vaults(instance), what) != {what}
        if deep:
            stories += _stories_in_audit(service, what, instance, last_seconds, stories)
        elif not stories:
            hint = _audit_hint(service, what, instance)
    if not stories:
        if "://" in what and not named_in_a_vault:
            raise NothingKnown(f"no vault{of_instance} contains {what}; see: sexton vault list")
        raise NothingKnown(
            f"nothing is known of {what}: no mark, no record of a deleted mark, and no owner lists it as live{hint}"
        )
    if wants_json():
        emit_list(stories)
    else:
        _show(stories)


def _show(stories: "Sequence[Story]") -> None:
    for story in stories:
        typer.echo(printable(f"{story.instance}  {story.kind} {story.id}".rstrip() if story.id else story.instance))
        for event in story.events:
            typer.echo(f"  {utc(event.at) if event.at else NO_INSTANT}  {printable(event.text)}")


def _instances(service: "OperatorService", instance: str | None) -> list[str]:
    return [instance] if instance is not None else [i.id for i in service.stores.registry.instances()]


def _stories_in_audit(
    service: "OperatorService",
    name: str,
    instance: str | None,
    last_seconds: int | None,
    known: "Sequence[Story]",
) -> "list[Story]":
    """Return the stories in the audit of the last so many seconds (None: all of it) that are not known already."""
    from sexton.insight.search import names_of
    from sexton.insight.why.audit import forgotten

    with service.db.read() as c:
        now = service.db.now(c)
    first = 0 if last_seconds is None else now - last_seconds * 1000
    known_marks = {(s.instance, s.kind, s.id) for s in known}
    names = names_of(service.stores.registry.vaults(instance), name)
    stories = forgotten(service.stores.audit, _instances(service, instance), names, first, now)
    return [s for s in stories if (s.instance, s.kind, s.id) not in known_marks]


def _audit_hint(service: "OperatorService", name: str, instance: str | None) -> str:
    """Return how much a search of the audit would read; empty if there is no audit."""
    with service.db.read() as c:
        now = service.db.now(c)
    sizes = [service.stores.audit.size(i, 0, now) for i in _instances(service, instance)]
    files = sum(s.files for s in sizes)
    if not files:
        return ""
    at_least = "" if all(s.whole for s in sizes) else "more than "
    size = human_bytes(sum(s.bytes for s in sizes))
    return (
        f". The audit goes back further: sexton why {name} --deep reads {at_least}{quantity(files, 'file')} of it "
        f"({at_least}{size}); --last 90d reads fewer"
    )
