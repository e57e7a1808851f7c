"""`sexton audit`: what one round tried, object by object, from the audit."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.context import opened
from sexton.cli.output import stamp

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.audit.store import AuditReader
    from sexton.db.engine import Database


def audit(
    number: Annotated[int, typer.Argument(metavar="ROUND", help="The round's number.", min=1, max=2**63 - 1)],
    outcome: Annotated[
        str | None, typer.Option(help="Only objects that ended so: deleted, hidden, failed, ...")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line for programs.")] = False,
) -> None:
    """Print every object that a round tried: when, what became of it, where it was, for which mark, and why not.

    Example: sexton audit 17 --outcome failed
    """
    import json

    from sexton.cli.context import WrongUsage
    from sexton.storage.model import Outcome

    if outcome is not None and outcome not in tuple(Outcome):
        raise WrongUsage(f"{outcome!r} is no outcome, one of: {', '.join(Outcome)}")
    with opened() as (settings, db):
        told = 0
        for row in reader_of(settings, db).rows(number):
            if outcome is not None and row.outcome != outcome:
                continue
            told += 1
            if as_json:
                typer.echo(json.dumps(row._asdict()))
                continue
            size = "" if row.bytes is None else f" {row.bytes} bytes"
            why = f": {row.reason}" if row.reason else ""
            at = stamp(row.at, "seconds")
            typer.echo(
                f"{at}  {row.outcome}  {row.vault}  {row.key}{size}  ({row.kind} {row.id}, batch {row.batch}){why}"
            )
    if not told:
        what = f"no object of round {number} is {outcome}" if outcome else f"the audit has no object of round {number}"
        typer.echo(f"{what}; it has those whose marks were finished with", err=True)


def reader_of(settings: "Settings", db: "Database") -> "AuditReader":
    """Return who reads the audit of this deployment, in all its places."""
    from sexton.audit.places import Places
    from sexton.audit.store import AuditReader
    from sexton.registry.store import Registry
    from sexton.storage.vaults import ProvenVaults

    registry, deployment, endpoint = Registry(db), settings.require_deployment(), settings.s3.endpoint_url
    vaults = ProvenVaults(registry.vault, deployment, endpoint)
    url = settings.audit.audit_url
    places = Places(vaults, registry.vaults, audit_url=url, deployment=deployment, endpoint_url=endpoint)
    return AuditReader(db, places)
